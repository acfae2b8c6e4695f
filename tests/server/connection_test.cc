#include "server/connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "server/loop_balance.h"

namespace ferry::server {
namespace {

TEST(LoopBalance, AddsLoopsOnlyWhereCpusAreIdle) {
  EXPECT_EQ(LoopsWanted(1, 2, {.busy = 0.3, .idle = 1.6, .others = 0}), 1u);
  EXPECT_EQ(LoopsWanted(1, 2, {.busy = 0.95, .idle = 1.0, .others = 0}), 2u);
  // The other CPU is the clients'.
  EXPECT_EQ(LoopsWanted(1, 2, {.busy = 1.0, .idle = 0.05, .others = 0.95}), 1u);
  EXPECT_EQ(LoopsWanted(2, 16, {.busy = 1.9, .idle = 12, .others = 0}), 4u);
  EXPECT_EQ(LoopsWanted(8, 10, {.busy = 7.6, .idle = 8, .others = 0}), 10u);
}

TEST(LoopBalance, GivesUpLoopsThatAreNotNeededOrInTheWay) {
  EXPECT_EQ(LoopsWanted(2, 2, {.busy = 0.4, .idle = 1.5, .others = 0}), 1u);
  EXPECT_EQ(LoopsWanted(2, 2, {.busy = 1.3, .idle = 0.0, .others = 0.7}), 1u);
  EXPECT_EQ(LoopsWanted(2, 2, {.busy = 1.95, .idle = 0.0, .others = 0.0}), 2u);
  EXPECT_EQ(LoopsWanted(4, 4, {.busy = 2.5, .idle = 1.0, .others = 0.5}), 4u);
}

// Answers each request with its body, and notes which threads did.
class Echo : public RequestHandler {
 public:
  void Handle(Door, std::shared_ptr<HttpRequest> request, Respond respond) override {
    {
      std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    }
    HttpResponse response;
    response.body = request->body;
    respond(std::move(response));
  }
  std::unique_ptr<GrpcCall> Call(Door, const HttpRequest&, std::shared_ptr<GrpcSink>) override { return nullptr; }

  std::mutex mutex;
  std::set<std::thread::id> threads;
};

// Sends one request and reads its answer; the answer's body.
std::string Ask(int socket, const std::string& body) {
  const std::string request = "POST / HTTP/1.1\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  if (write(socket, request.data(), request.size()) != static_cast<ssize_t>(request.size())) return "cannot write";
  std::string answer;
  while (answer.size() < body.size() || answer.compare(answer.size() - body.size(), body.size(), body) != 0) {
    char bytes[4096];
    const ssize_t got = read(socket, bytes, sizeof(bytes));
    if (got <= 0) return "closed after: " + answer;
    answer.append(bytes, static_cast<size_t>(got));
  }
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

TEST(LoopBalance, MovesConnectionsAndLosesNoRequest) {
  LoopGroup group;
  Echo handler;
  ConnectionLimits limits;
  std::atomic<int> count{0};
  std::vector<std::unique_ptr<EventLoop>> loops;
  for (int i = 0; i < 2; ++i) loops.push_back(std::make_unique<EventLoop>(group));
  LoopBalance balance(group, loops, 0);
  for (auto& loop : loops) loop->Start();
  constexpr int kClients = 6;
  std::vector<std::thread> clients;
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, wrong{0};
  for (int i = 0; i < kClients; ++i) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ASSERT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    EventLoop& loop = balance.ForNew();
    EXPECT_EQ(&loop, loops[0].get());
    loop.Later([&, end = ends[0], seat = std::make_shared<const Seat>(count)] {
      const uint64_t number = EventLoop::NextNumber();
      loop.Add(end, number,
               std::make_unique<Connection>(loop, end, number, Door::kHttp, "", nullptr, handler, limits, seat));
    });
    clients.emplace_back([&, i, end = ends[1]] {
      for (int serial = 0; !stop; ++serial) {
        const std::string body = std::to_string(i) + ":" + std::to_string(serial);
        if (Ask(end, body) != body) ++wrong;
        ++answered;
      }
      close(end);
    });
  }
  size_t most_threads = 0;
  for (int round = 0; round < 6; ++round) {
    balance.Use(round % 2 == 0 ? 2 : 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(600));  // two ticks
    std::lock_guard lock(handler.mutex);
    most_threads = std::max(most_threads, handler.threads.size());
    if (round % 2 == 1) handler.threads.clear();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  {
    std::lock_guard lock(handler.mutex);
    EXPECT_EQ(handler.threads.size(), 1u);  // given up, the second one has none left
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(answered, kClients);
  EXPECT_EQ(most_threads, 2u);
  for (auto& loop : loops) loop->Stop();
}

}  // namespace
}  // namespace ferry::server

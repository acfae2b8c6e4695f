#include "server/connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <set>

#include "server/listener.h"
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

TEST(LoopBalance, TakesAMachineThatSaysNothingForItsOwn) {
  using std::chrono::seconds;
  const std::string path = testing::TempDir() + "stat" + std::to_string(getpid());
  auto read = [&](const char* text) {
    std::ofstream(path) << text;
    const MachineTime time = ReadMachineTime(path.c_str(), 2, seconds(100), seconds(30));
    return std::pair(time.busy.count() / 1'000'000'000, time.idle.count() / 1'000'000'000);
  };
  EXPECT_EQ(read("cpu  0 0 0 0 0 0 0 0 0 0\n"), std::pair(30l, 170l));  // gVisor
  EXPECT_EQ(read(""), std::pair(30l, 170l));
  const long second = sysconf(_SC_CLK_TCK);
  EXPECT_EQ(read(("cpu  " + std::to_string(7 * second) + " 0 0 " + std::to_string(9 * second) + " 0 0\n").c_str()),
            std::pair(7l, 9l));
  unlink(path.c_str());
  EXPECT_EQ(ReadMachineTime(path.c_str(), 2, seconds(100), seconds(30)).idle, seconds(170));  // ProcSubset=pid
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
    loop.Later([&, seat = std::make_shared<const Seat>(count, ends[0])] {
      const uint64_t number = EventLoop::NextNumber();
      loop.Add(seat->descriptor(), number,
               std::make_unique<Connection>(loop, seat, number, Door::kHttp, "", nullptr, handler, limits));
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

TEST(Listener, TakesHandedSocketsByNameOrPlace) {
  using Sockets = std::array<int, 3>;
  setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
  setenv("LISTEN_FDS", "3", 1);
  unsetenv("LISTEN_FDNAMES");
  EXPECT_EQ(HandedSockets(), (Sockets{3, 4, 5}));
  setenv("LISTEN_FDNAMES", "ferry-server.socket:ferry-server.socket:ferry-server.socket", 1);
  EXPECT_EQ(HandedSockets(), (Sockets{3, 4, 5}));
  setenv("LISTEN_FDNAMES", "metrics:other:http", 1);
  EXPECT_EQ(HandedSockets(), (Sockets{5, -1, 3}));
  setenv("LISTEN_FDS", "1", 1);
  setenv("LISTEN_FDNAMES", "grpc", 1);
  EXPECT_EQ(HandedSockets(), (Sockets{-1, 3, -1}));
  setenv("LISTEN_PID", "1", 1);
  EXPECT_EQ(HandedSockets(), (Sockets{-1, -1, -1}));
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) unsetenv(name);
}

TEST(Seat, ClosesASocketThatNobodyGotToServe) {
  std::atomic<int> count{0};
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  {
    const Seat seat(count, ends[0]);
    EXPECT_EQ(count, 1);
  }
  EXPECT_EQ(count, 0);
  char byte;
  EXPECT_EQ(read(ends[1], &byte, 1), 0);
  close(ends[1]);
}

// Fails at its first tick, and at its first bytes after that.
class Failing : public Watched {
 public:
  Failing(int end, std::atomic<int>& failures, std::atomic<int>& ticks)
      : end_(end), failures_(failures), ticks_(ticks) {}
  ~Failing() override { close(end_); }
  void OnReady(bool readable, bool, bool) override {
    if (readable) throw std::bad_alloc();
  }
  void OnTick(std::chrono::steady_clock::time_point) override {
    if (++ticks_ == 1) throw std::bad_alloc();
  }
  void OnFailure() override { ++failures_; }

 private:
  const int end_;
  std::atomic<int>&failures_, &ticks_;
};

TEST(EventLoop, GoesOnWhenMemoryRunsOut) {
  LoopGroup group;
  std::atomic<int> failures{0}, ticks{0}, posted{0};
  group.on_tick = [](EventLoop&) { throw std::bad_alloc(); };
  EventLoop loop(group);
  loop.Start();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  loop.Later([&] { throw std::bad_alloc(); });
  loop.Later([&] {
    loop.Add(ends[0], EventLoop::NextNumber(), std::make_unique<Failing>(ends[0], failures, ticks));
    ++posted;
  });
  while (ticks < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(posted, 1);
  EXPECT_EQ(failures, 1);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  while (failures < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  loop.Stop();
  close(ends[1]);
}

// Counts ticks that come while bytes that were there before are unread.
class Punctual : public Watched {
 public:
  Punctual(int end, std::atomic<int>& early) : end_(end), early_(early) {}
  ~Punctual() override { close(end_); }
  void OnReady(bool readable, bool, bool) override { has_read_ = has_read_ || readable; }
  void OnTick(std::chrono::steady_clock::time_point) override {
    if (paused && !has_read_) ++early_;
  }
  static inline int other_end = -1;
  static inline std::atomic<bool> paused{false};

 private:
  const int end_;
  std::atomic<int>& early_;
  bool has_read_ = false;
};

// A pause of the machine, at whose end the wait for events is interrupted.
TEST(EventLoop, ReadsWhatIsThereBeforeATick) {
  LoopGroup group;
  std::atomic<int> early{0};
  EventLoop loop(group);
  loop.Start();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Punctual::other_end = ends[1];
  struct sigaction pause {
  }, before{};
  pause.sa_handler = [](int) {
    const timespec longer_than_a_tick{0, 600'000'000};
    nanosleep(&longer_than_a_tick, nullptr);
    [[maybe_unused]] ssize_t written = write(Punctual::other_end, "x", 1);
    Punctual::paused = true;
  };
  sigaction(SIGUSR1, &pause, &before);
  std::promise<pthread_t> added;
  loop.Later([&] {
    loop.Add(ends[0], EventLoop::NextNumber(), std::make_unique<Punctual>(ends[0], early));
    added.set_value(pthread_self());
  });
  const pthread_t thread = added.get_future().get();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it waits again
  pthread_kill(thread, SIGUSR1);
  while (!Punctual::paused) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::promise<void> done;
  loop.Later([&] { done.set_value(); });
  done.get_future().wait();
  loop.Stop();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(early, 0);
  close(ends[1]);
}

}  // namespace
}  // namespace ferry::server

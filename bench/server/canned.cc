// canned: a server that costs nothing. It answers whatever comes with one recorded answer, with the request's id in it:
// what a load generator reaches against it is the most that any server can show on that machine.
//
// usage: canned PORT THREADS ANSWER [awake]    (ANSWER: a whole HTTP answer, whose "id" has ten bytes, in a file;
//                                              awake: its threads never sleep, so that waking them costs nothing)
// build: g++ -O2 -std=c++20 canned.cc -o canned -lpthread
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr char kId[] = "\"id\":\"";
constexpr size_t kBefore = sizeof(kId) - 1, kIdBytes = 10;

void Serve(int epoll, std::string answer, int timeout) {
  const size_t place = answer.find(kId) + kBefore;
  std::vector<char> bytes(64 * 1024);
  epoll_event events[128];
  while (true) {
    const int count = epoll_wait(epoll, events, 128, timeout);
    for (int i = 0; i < count; ++i) {
      const int connection = events[i].data.fd;
      const ssize_t got = recv(connection, bytes.data(), bytes.size(), 0);
      if (got <= 0) {
        close(connection);
        continue;
      }
      const std::string_view request(bytes.data(), static_cast<size_t>(got));
      const size_t id = request.find(kId);
      if (id != request.npos && id + kBefore + kIdBytes <= request.size())
        std::memcpy(answer.data() + place, request.data() + id + kBefore, kIdBytes);
      send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 4 && count != 5) return std::fprintf(stderr, "usage: canned PORT THREADS ANSWER [awake]\n"), 2;
  const int timeout = count == 5 ? 0 : -1;
  std::ifstream file(words[3], std::ios::binary);
  const std::string answer{std::istreambuf_iterator<char>(file), {}};
  const size_t id = answer.find(kId);
  if (id == answer.npos || id + kBefore + kIdBytes > answer.size())
    return std::fprintf(stderr, "%s has no id of ten bytes\n", words[3]), 2;
  const int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(words[1])));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 || listen(listener, 1024) != 0)
    return std::perror("canned"), 1;
  std::vector<int> epolls;
  for (int i = 0; i < std::atoi(words[2]); ++i) {
    epolls.push_back(epoll_create1(0));
    std::thread(Serve, epolls.back(), answer, timeout).detach();
  }
  for (size_t next = 0;; ++next) {
    const int connection = accept(listener, nullptr, nullptr);
    if (connection < 0) continue;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.fd = connection;
    epoll_ctl(epolls[next % epolls.size()], EPOLL_CTL_ADD, connection, &event);
  }
}

#include "base/file_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"

namespace ferry {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kLongestRequest = 16 << 10, kMostVisitors = 64;
constexpr std::chrono::seconds kPatience{30};

void MakeNonblocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

std::string_view TypeOf(std::string_view path) {
  auto ends = [&](std::string_view end) {
    return path.size() >= end.size() && path.substr(path.size() - end.size()) == end;
  };
  if (ends(".html")) return "text/html; charset=utf-8";
  if (ends(".js") || ends(".mjs")) return "text/javascript; charset=utf-8";
  if (ends(".css")) return "text/css; charset=utf-8";
  if (ends(".wasm")) return "application/wasm";
  return "application/octet-stream";
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The path of a URL without its question, escapes written out.
std::string PathOf(std::string_view target) {
  std::string path;
  target = target.substr(0, target.find('?'));
  for (size_t i = 0; i < target.size(); ++i) {
    const bool escaped =
        target[i] == '%' && i + 2 < target.size() && HexDigit(target[i + 1]) >= 0 && HexDigit(target[i + 2]) >= 0;
    path += escaped ? static_cast<char>(HexDigit(target[i + 1]) * 16 + HexDigit(target[i + 2])) : target[i];
    if (escaped) i += 2;
  }
  return path == "/" ? "/index.html" : path;
}

// The value of a header, whose name is given in small letters.
std::string_view HeaderOf(std::string_view request, std::string_view name) {
  for (size_t at = request.find("\r\n"); at != request.npos && at + 2 < request.size();
       at = request.find("\r\n", at + 2)) {
    std::string_view line = request.substr(at + 2, request.find("\r\n", at + 2) - at - 2);
    if (line.size() <= name.size() || line[name.size()] != ':') continue;
    const bool same =
        std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) { return a == (b | 0x20); });
    if (!same) continue;
    line.remove_prefix(name.size() + 1);
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    return line;
  }
  return {};
}

}  // namespace

struct FileServer::Visitor {
  explicit Visitor(int number) : descriptor(number) {}
  ~Visitor() { close(descriptor); }

  const int descriptor;
  std::string request, head;
  std::shared_ptr<MappedFile> file;
  size_t sent = 0;  // of head and file together
  bool answering = false, done = false;
  Clock::time_point last = Clock::now();
};

FileServer::FileServer(std::map<std::string, std::string> files, int port) : files_(std::move(files)) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  if (listener_ < 0) Fail(ErrorCode::kIo, "no socket can be made: ", std::strerror(errno));
  const int yes = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), length) != 0 || listen(listener_, 16) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    const int reason = errno;
    close(listener_);
    Fail(ErrorCode::kIo, "port ", port, " of this machine cannot be listened to: ", std::strerror(reason));
  }
  MakeNonblocking(listener_);
  port_ = ntohs(address.sin_port);
}

FileServer::~FileServer() {
  visitors_.clear();
  close(listener_);
}

void FileServer::Accept() {
  const int descriptor = accept(listener_, nullptr, nullptr);
  if (descriptor < 0) return;
  MakeNonblocking(descriptor);
  if (visitors_.size() >= kMostVisitors) {
    close(descriptor);
    return;
  }
  visitors_[descriptor] = std::make_unique<Visitor>(descriptor);
}

// A page from elsewhere whose name was led to this machine says its own name: it gets nothing.
std::string FileServer::Head(std::string_view request, Visitor& visitor) const {
  auto refuse = [](std::string_view status) {
    return Cat("HTTP/1.1 ", status, "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  };
  const std::string_view host = HeaderOf(request, "host");
  if (host != Cat("127.0.0.1:", port_) && host != Cat("localhost:", port_)) return refuse("403 Forbidden");
  const bool is_get = request.substr(0, 4) == "GET ", is_head = request.substr(0, 5) == "HEAD ";
  if (!is_get && !is_head) return refuse("405 Method Not Allowed");
  std::string_view target = request.substr(is_get ? 4 : 5);
  target = target.substr(0, target.find_first_of(" \r\n"));
  const auto found = files_.find(PathOf(target));
  if (found == files_.end()) return refuse("404 Not Found");
  try {
    visitor.file = MappedFile::Open(found->second);
  } catch (const Error&) {
    return refuse("404 Not Found");
  }
  const size_t size = visitor.file->size();
  if (is_head) visitor.file.reset();
  // Isolated from other origins, so that the page's threads may share memory.
  return Cat("HTTP/1.1 200 OK\r\nContent-Type: ", TypeOf(found->second), "\r\nContent-Length: ", size,
             "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer"
             "\r\nCross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Embedder-Policy: require-corp"
             "\r\nCross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n");
}

void FileServer::Answer(Visitor& visitor) const {
  if (!visitor.answering) {
    char buffer[4096];
    const ssize_t count = recv(visitor.descriptor, buffer, sizeof buffer, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    visitor.done = count <= 0;
    if (visitor.done) return;
    visitor.request.append(buffer, static_cast<size_t>(count));
    visitor.done = visitor.request.size() > kLongestRequest;
    const size_t end = visitor.request.find("\r\n\r\n");
    if (visitor.done || end == std::string::npos) return;
    visitor.head = Head(std::string_view(visitor.request).substr(0, end + 2), visitor);
    visitor.answering = true;
  }
  const size_t all = visitor.head.size() + (visitor.file ? visitor.file->size() : 0);
  while (visitor.sent < all) {
    const bool in_head = visitor.sent < visitor.head.size();
    const char* from = in_head ? visitor.head.data() + visitor.sent
                               : visitor.file->text().data() + (visitor.sent - visitor.head.size());
    const size_t left = (in_head ? visitor.head.size() : all) - visitor.sent;
    const ssize_t count = send(visitor.descriptor, from, std::min<size_t>(left, 1 << 20), MSG_NOSIGNAL);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) break;
    visitor.sent += static_cast<size_t>(count);
    visitor.last = Clock::now();
  }
  shutdown(visitor.descriptor, SHUT_WR);
  visitor.done = true;
}

void FileServer::Serve(const std::atomic<bool>& stop) {
  constexpr int kLook = 500;  // milliseconds
  while (!stop.load(std::memory_order_relaxed)) {
    std::vector<pollfd> waits{{listener_, POLLIN, 0}};
    for (const auto& [descriptor, visitor] : visitors_)
      waits.push_back({descriptor, static_cast<short>(visitor->answering ? POLLOUT : POLLIN), 0});
    if (poll(waits.data(), waits.size(), kLook) < 0 && errno != EINTR)
      Fail(ErrorCode::kIo, "waiting for the browser failed: ", std::strerror(errno));
    for (size_t i = 1; i < waits.size(); ++i)
      if (waits[i].revents != 0) Answer(*visitors_.at(waits[i].fd));
    std::erase_if(visitors_, [](const auto& entry) {
      return entry.second->done || Clock::now() - entry.second->last > kPatience;
    });
    if (waits[0].revents != 0) Accept();
  }
}

}  // namespace ferry

#include "server/otlp_exporter.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>

#include "base/error.h"

namespace ferry::server {
namespace {

constexpr size_t kMostWaiting = 4096, kFullBatch = 512;
constexpr auto kPause = std::chrono::seconds(1), kFlushTime = std::chrono::seconds(2);
constexpr int kSocketSeconds = 5;

class Socket {
 public:
  Socket(const std::string& host, const std::string& port) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
    for (const addrinfo* at = found; at && descriptor_ < 0; at = at->ai_next) {
      const int made = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (made < 0) continue;
      const timeval most{kSocketSeconds, 0};
      setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
      setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
      if (connect(made, at->ai_addr, at->ai_addrlen) == 0)
        descriptor_ = made;
      else
        close(made);
    }
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  bool is_open() const { return descriptor_ >= 0; }
  // "HTTP/1.1 200 …": all that is looked at of the answer, and then the connection is closed.
  std::string StatusLine() const {
    std::string line;
    char byte = 0;
    while (line.size() < 64 && recv(descriptor_, &byte, 1, 0) == 1 && byte != '\n') line += byte;
    return line;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace

OtlpExporter::OtlpExporter(const std::string& url) {
  std::string rest = url;
  if (const size_t scheme = url.find("://"); scheme != std::string::npos) {
    if (url.compare(0, scheme, "http") != 0)
      Fail(ErrorCode::kInvalidArgument, "spans are sent over http, not to '", Printable(url),
           "'; a collector beside the server can send them on");
    rest = url.substr(scheme + 3);
  }
  if (const size_t slash = rest.find('/'); slash != std::string::npos) {
    if (slash + 1 < rest.size()) path_ = rest.substr(slash);
    rest.resize(slash);
  }
  const size_t bracket = rest.find(']');  // [::1]:4318
  if (const size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket); colon != std::string::npos) {
    port_ = rest.substr(colon + 1);
    rest.resize(colon);
  }
  host_ = bracket == std::string::npos ? rest : rest.substr(1, bracket - 1);
  if (host_.empty() || port_.empty() || port_.find_first_not_of("0123456789") != std::string::npos ||
      url.find_first_of("\r\n ") != std::string::npos)
    Fail(ErrorCode::kInvalidArgument, "'", Printable(url),
         "' is no address of a collector (http://HOST:4318/v1/traces)");
  worker_ = std::thread([this] { Work(); });
}

OtlpExporter::~OtlpExporter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  worker_.join();
}

void OtlpExporter::Add(std::string resource_spans) {
  std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMostWaiting) {
    ++dropped_;
    return;
  }
  waiting_.push_back(std::move(resource_spans));
  if (waiting_.size() == kFullBatch) wake_.notify_one();
}

void OtlpExporter::Flush() {
  std::unique_lock lock(mutex_);
  hurried_ = true;
  wake_.notify_one();
  idle_.wait_for(lock, kFlushTime, [&] { return waiting_.empty() && !sending_; });
}

void OtlpExporter::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, kPause, [&] { return stopping_ || hurried_ || waiting_.size() >= kFullBatch; });
    if (waiting_.empty()) {
      hurried_ = false;
      idle_.notify_all();
      if (stopping_) return;
      continue;
    }
    const std::vector<std::string> batch = std::move(waiting_);
    waiting_.clear();
    sending_ = true;
    lock.unlock();
    std::string body = "{\"resourceSpans\":[";
    for (size_t i = 0; i < batch.size(); ++i) (body += i > 0 ? "," : "") += batch[i];
    body += "]}";
    const bool sent = Post(body);
    lock.lock();
    sending_ = false;
    if (!sent) dropped_ += batch.size();
    if (stopping_ && !sent) return;
  }
}

bool OtlpExporter::Post(const std::string& body) const {
  const Socket socket(host_, port_);
  if (!socket.is_open()) return false;
  const bool is_v6 = host_.find(':') != std::string::npos;
  const std::string head =
      Cat("POST ", path_, " HTTP/1.1\r\nhost: ", is_v6 ? Cat("[", host_, "]") : host_, ":", port_,
          "\r\ncontent-type: application/json\r\nuser-agent: ferry-server\r\nconnection: close\r\ncontent-length: ",
          body.size(), "\r\n\r\n");
  if (!socket.Send(head) || !socket.Send(body)) return false;
  const std::string status = socket.StatusLine();
  return status.compare(0, 7, "HTTP/1.") == 0 && status.find(" 2") == 8;
}

}  // namespace ferry::server

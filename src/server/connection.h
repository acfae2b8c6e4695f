// A client's connection: bytes in and out, with or without TLS, and the protocol that speaks over it.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "server/event_loop.h"
#include "server/http_message.h"
#include "server/tls.h"

namespace ferry::server {

struct ConnectionLimits {
  size_t most_body = size_t{64} << 20;
  size_t most_binary = size_t{2} << 30;  // of a body that is bytes of tensors but for its beginning
  size_t most_message = INT32_MAX;       // of gRPC
  size_t most_header = 32 * 1024;
  std::chrono::seconds header_time{10};  // from the first byte of a request to its last header
  std::chrono::seconds body_time{60};    // without any progress
  std::chrono::seconds idle_time{75};
};

// A connection counts from the moment it is accepted, before the thread that serves it has heard of it; its socket is
// closed when nobody has it any more.
class Seat {
 public:
  Seat(std::atomic<int>& taken, int descriptor) : descriptor_(descriptor), taken_(taken) { ++taken_; }
  ~Seat();
  Seat(const Seat&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
  std::atomic<int>& taken_;
};

class Connection;

// HTTP/1.1 or HTTP/2 on one connection.
class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual void OnData(std::string_view bytes) = 0;
  virtual void OnWritable() {}
  virtual void OnClosed() {}
  // Called twice: the end is near; no further requests. Those under way are answered.
  virtual void Drain() = 0;
  virtual bool IsIdle() const = 0;   // nothing is under way
  virtual bool Answers() const = 0;  // a request is complete, and its answer is still to come
  virtual bool IsReadingBody() const { return false; }
  virtual void OnTick(std::chrono::steady_clock::time_point /*now*/) {}
  virtual bool InHeader() const = 0;    // a request has begun, and its headers are not complete
  virtual bool WantsBytes() const = 0;  // false: the client has to wait
};

class Connection : public Watched {
 public:
  Connection(EventLoop& loop, std::shared_ptr<const Seat> seat, uint64_t number, Door door, std::string peer,
             std::unique_ptr<TlsStream> tls, RequestHandler& handler, const ConnectionLimits& limits);
  ~Connection() override;

  void OnReady(bool readable, bool writable, bool broken) override;
  void OnFailure() override { Close(); }
  void OnTick(std::chrono::steady_clock::time_point now) override;
  void MoveTo(EventLoop& next) override;

  // For protocols.
  void Write(std::string_view first, std::string_view second = {});
  void CloseWhenWritten();  // also lets a client that still sends read the answer
  void Close();
  void Resume();  // reads on after WantsBytes was false
  size_t backlog() const { return out_.size() - sent_; }
  bool is_closing() const { return closing_; }
  void Drain();

  EventLoop& loop() { return *loop_; }
  uint64_t number() const { return number_; }
  Door door() const { return door_; }
  const std::string& peer() const { return peer_; }
  RequestHandler& handler() { return handler_; }
  const ConnectionLimits& limits() const { return limits_; }

 private:
  void ReadAll();
  void EndIdle();
  void Take(std::string_view bytes);
  bool Flush();
  long Send(const iovec* parts, int count);
  void ChooseProtocol();

  EventLoop* loop_;
  const std::shared_ptr<const Seat> seat_;
  const int descriptor_;
  const uint64_t number_;
  const Door door_;
  const std::string peer_;
  std::unique_ptr<TlsStream> tls_;
  RequestHandler& handler_;
  const ConnectionLimits& limits_;

  std::unique_ptr<Protocol> protocol_;
  std::string first_bytes_;  // until the protocol is known
  std::string out_;
  size_t sent_ = 0;
  bool readable_ = false, reading_ = false, closing_ = false, lingering_ = false, closed_ = false, at_end_ = false;
  bool drained_ = false;
  std::chrono::steady_clock::time_point last_progress_, header_begun_, linger_until_;
  bool in_header_ = false;
};

std::unique_ptr<Protocol> MakeHttp1(Connection& connection);
std::unique_ptr<Protocol> MakeHttp2(Connection& connection);

}  // namespace ferry::server

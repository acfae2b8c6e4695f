// HTTP requests and answers, whichever version carries them, and calls of gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/refusal.h"

namespace ferry::server {

class EventLoop;

using HeaderList = std::vector<std::pair<std::string, std::string>>;  // names in lower case

const std::string* FindHeader(const HeaderList& headers, std::string_view name);

struct HttpRequest {
  std::string method, target;
  HeaderList headers;
  std::string body;
  std::string peer;

  const std::string* Find(std::string_view name) const { return FindHeader(headers, name); }
};

struct HttpResponse {
  int status = 200;
  std::string_view content_type = "application/json";  // of static text
  HeaderList headers;
  std::optional<size_t> json_length;  // of a body that goes on with bytes of tensors: Inference-Header-Content-Length
  std::string body;
};

// How large the body of a request may be, by its headers: JSON and what is to be unpacked less than tensors' bytes.
struct BodyLimit {
  enum class Kind { kJson, kRaw, kPacked, kBinary } kind = Kind::kJson;
  size_t bytes = 0;
  // What a larger one is answered, of which so much has come.
  HttpResponse Refuse(const HttpRequest& request, size_t came) const;
};
BodyLimit BodyLimitOf(const HttpRequest& request, size_t most_body, size_t most_binary);

HttpResponse ErrorResponse(int status, std::string_view message);  // {"error": …}
HttpResponse ErrorResponse(const Refusal& refusal);
const char* ReasonPhrase(int status);
uint64_t GrpcTimeout(const HttpRequest& request);  // grpc-timeout ("5S", "100m") in microseconds; 0: none

// Whoever awaits an answer; a connection may be gone when it comes.
class Answered {
 public:
  virtual ~Answered() = default;
  virtual void Answer(uint64_t exchange, HttpResponse response) = 0;  // on the connection's thread
};

// The answer to one request. Called once, on any thread; small, because every request has one.
class Respond {
 public:
  Respond(EventLoop& loop, uint64_t connection, Answered& answered, uint64_t exchange)
      : loop_(&loop), connection_(connection), answered_(&answered), exchange_(exchange) {}
  void operator()(HttpResponse response) const;
  void set_request_id(std::string id) { request_id_ = std::move(id); }  // goes back in a header

 private:
  EventLoop* loop_;
  uint64_t connection_;
  Answered* answered_;  // valid while the loop knows the connection
  uint64_t exchange_;
  std::string request_id_;
};

// What a call of gRPC says back; any thread may use it, until Finish.
class GrpcSink {
 public:
  virtual ~GrpcSink() = default;
  virtual void Send(std::string message) = 0;
  virtual void Reply(std::string message) = 0;  // the one message of the call, and its good end
  virtual void Finish(Code code, std::string message) = 0;
};

// One call, driven by its connection's thread.
class GrpcCall {
 public:
  virtual ~GrpcCall() = default;
  virtual void OnMessage(std::string message) = 0;
  virtual void OnHalfClose() = 0;                 // the client sends no more
  virtual void OnCancel() = 0;                    // nobody waits any more
  virtual void OnTick() {}                        // four times a second
  virtual bool MayWait() const { return false; }  // the client may take any time between its messages
};

enum class Door { kHttp, kGrpc, kMetrics };

// What connections hand their requests to.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  virtual void Handle(Door door, std::shared_ptr<HttpRequest> request, Respond respond) = 0;
  virtual std::unique_ptr<GrpcCall> Call(Door door, const HttpRequest& request, std::shared_ptr<GrpcSink> sink) = 0;
};

}  // namespace ferry::server

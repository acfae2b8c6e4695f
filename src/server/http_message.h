// HTTP requests and answers, whichever version carries them, and calls of gRPC.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/refusal.h"

namespace ferry::server {

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
  std::string content_type = "application/json";
  HeaderList headers;
  std::string body;
};

HttpResponse ErrorResponse(int status, std::string_view message);  // {"error": …}
HttpResponse ErrorResponse(const Refusal& refusal);
const char* ReasonPhrase(int status);

// Called once, on any thread.
using Respond = std::function<void(HttpResponse)>;

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

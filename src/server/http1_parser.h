// HTTP/1.1 requests out of bytes, by Boost.Beast's parser.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "server/http_message.h"

namespace ferry::server {

class Http1Parser {
 public:
  Http1Parser(size_t most_body, size_t most_binary, size_t most_header);
  ~Http1Parser();

  // Takes what it can of the bytes, at most one request; throws Refusal-like HttpResponse by status() != 0 instead.
  size_t Feed(std::string_view bytes);

  bool has_header() const;
  bool is_done() const;
  int status() const;             // of the answer to bytes that are no request; 0: none
  HttpResponse TooLarge() const;  // the answer where status() is 413
  bool keep_alive() const;
  bool is_old() const;  // HTTP/1.0, where a connection only stays if both say so
  bool expects_continue() const;
  std::shared_ptr<HttpRequest> TakeRequest();  // and begins anew
  bool is_fresh() const;                       // nothing of a request has come

 private:
  size_t FeedRequest(std::string_view bytes);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ferry::server

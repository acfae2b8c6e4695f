// HTTP/1.1 on a connection: one request after the other, each answered before the next is looked at.
#include "server/connection.h"
#include "server/http1_parser.h"

namespace ferry::server {
namespace {

class Http1 : public Protocol, public Answered {
 public:
  explicit Http1(Connection& connection)
      : connection_(connection),
        parser_(connection.limits().most_body, connection.limits().most_binary, connection.limits().most_header) {}

  void OnData(std::string_view bytes) override {
    if (waits_ || !pending_.empty()) {
      pending_ += bytes;
      if (!waits_) Continue();
      return;
    }
    const size_t taken = Parse(bytes);
    if (taken < bytes.size()) pending_.append(bytes.substr(taken));
    if (!waits_ && !pending_.empty() && progressed_) Continue();
  }

  void OnWritable() override { AfterAnswer(); }
  void Answer(uint64_t serial, HttpResponse response) override {
    if (serial == serial_) Answer(std::move(response));
  }
  void OnClosed() override { closed_ = true; }
  void Drain() override { draining_ = true; }
  bool IsIdle() const override { return !waits_ && parser_.is_fresh() && pending_.empty(); }
  bool Answers() const override { return waits_; }
  bool IsReadingBody() const override { return !waits_ && parser_.has_header(); }
  bool InHeader() const override { return !waits_ && !parser_.is_fresh() && !parser_.has_header(); }
  bool WantsBytes() const override {
    return !(waits_ && pending_.size() > 64 * 1024) && connection_.backlog() < (size_t{4} << 20);
  }

 private:
  // What is pending, as far as it makes requests that can be answered.
  void Continue() {
    if (working_) return;
    working_ = true;
    do {
      const std::string bytes = std::move(pending_);
      pending_.clear();
      const size_t taken = Parse(bytes);
      if (taken < bytes.size()) pending_.insert(0, bytes, taken, std::string::npos);
    } while (!waits_ && !pending_.empty() && progressed_ && !closed_);
    working_ = false;
  }

  // At most one request; the number of bytes that it took.
  size_t Parse(std::string_view bytes) {
    if (refused_) return bytes.size();
    const size_t taken = parser_.Feed(bytes);
    progressed_ = taken > 0;
    if (parser_.status() != 0) {
      refused_ = true;
      keep_alive_ = false;
      Answer(parser_.status() == 413
                 ? parser_.TooLarge()
                 : ErrorResponse(parser_.status(),
                                 parser_.status() == 431 ? "the headers are too large" : "the request is no HTTP/1.1"));
      return bytes.size();
    }
    if (parser_.has_header() && !parser_.is_done() && parser_.expects_continue() && !continued_) {
      continued_ = true;
      connection_.Write("HTTP/1.1 100 Continue\r\n\r\n");
    }
    if (!parser_.is_done()) return taken;
    continued_ = false;
    keep_alive_ = parser_.keep_alive() && !draining_;
    is_old_ = parser_.is_old();
    std::shared_ptr<HttpRequest> request = parser_.TakeRequest();
    request->peer = connection_.peer();
    is_head_ = request->method == "HEAD";
    waits_ = true;
    dispatching_ = true;
    connection_.handler().Handle(connection_.door(), std::move(request),
                                 Respond(connection_.loop(), connection_.number(), *this, ++serial_));
    dispatching_ = false;
    return taken;
  }

  void Answer(HttpResponse response) {
    if (draining_) keep_alive_ = false;
    head_.clear();
    head_ += response.status == 200 ? "HTTP/1.1 200 OK"
                                    : Cat("HTTP/1.1 ", response.status, " ", ReasonPhrase(response.status));
    head_ += "\r\ncontent-type: ";
    head_ += response.content_type;
    for (const auto& [name, value] : response.headers) (((head_ += "\r\n") += name) += ": ") += value;
    if (response.json_length) {
      head_ += "\r\ninference-header-content-length: ";
      AppendUnsigned(head_, *response.json_length);
    }
    head_ += "\r\ncontent-length: ";
    AppendUnsigned(head_, response.body.size());
    if (!keep_alive_)
      head_ += "\r\nconnection: close";
    else if (is_old_)
      head_ += "\r\nconnection: keep-alive";
    head_ += "\r\n\r\n";
    if (is_head_) response.body.clear();
    if (response.body.size() < 16 * 1024) {
      head_ += response.body;
      connection_.Write(head_);
    } else {
      connection_.Write(head_, response.body);
    }
    if (closed_) return;
    if (!keep_alive_) return connection_.CloseWhenWritten();
    written_ = true;
    if (connection_.backlog() == 0) AfterAnswer();
  }

  void AfterAnswer() {
    if (!written_) return;
    written_ = false;
    waits_ = false;
    if (dispatching_) return;  // whoever called goes on
    if (!pending_.empty()) Continue();
    if (!closed_ && !waits_) connection_.Resume();
  }

  Connection& connection_;
  Http1Parser parser_;
  std::string pending_, head_;
  uint64_t serial_ = 0;
  bool waits_ = false, written_ = false, working_ = false, dispatching_ = false, progressed_ = false;
  bool keep_alive_ = true, is_old_ = false, is_head_ = false, continued_ = false, draining_ = false, refused_ = false,
       closed_ = false;
};

}  // namespace

std::unique_ptr<Protocol> MakeHttp1(Connection& connection) { return std::make_unique<Http1>(connection); }

}  // namespace ferry::server

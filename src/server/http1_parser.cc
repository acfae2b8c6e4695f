#include "server/http1_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>

namespace ferry::server {
namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

// Of "http://host/path", as proxies are asked, the path.
std::string PathOf(std::string_view target) {
  const size_t scheme = target.find("://");
  if (scheme == std::string_view::npos || target.find('/') < scheme) return std::string(target);
  const size_t path = target.find_first_of("/?", scheme + 3);
  if (path == std::string_view::npos) return "/";
  return Cat(target[path] == '?' ? "/" : "", target.substr(path));
}

class Parser : public http::basic_parser<true> {
 public:
  Parser(size_t most_body, size_t most_binary, size_t most_header)
      : most_body_(most_body), most_binary_(most_binary), request(std::make_shared<HttpRequest>()) {
    body_limit(UINT64_MAX);  // it depends on the headers
    header_limit(static_cast<uint32_t>(most_header));
    eager(true);
  }

 private:
  const size_t most_body_, most_binary_;

 public:
  BodyLimit limit;
  size_t came = 0;  // of the body
  std::shared_ptr<HttpRequest> request;
  bool expects_continue = false, is_old = false;

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version, error_code& error) override {
    error = {};
    is_old = version < 11;
    request->method.assign(method.data(), method.size());
    request->target = PathOf({target.data(), target.size()});
    request->headers.reserve(8);
  }
  void on_response_impl(int, string_view, int, error_code& error) override { error = {}; }
  void on_field_impl(http::field, string_view name, string_view value, error_code& error) override {
    error = {};
    constexpr size_t kMostFields = 128;
    if (request->headers.size() >= kMostFields) {
      error = http::error::header_limit;
      return;
    }
    auto& [key, text] = request->headers.emplace_back();
    key.assign(name.data(), name.size());
    for (char& c : key)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    text.assign(value.data(), value.size());
    if (key == "expect") expects_continue = text.find("100-continue") != std::string::npos;
  }
  void on_header_impl(error_code& error) override {
    limit = BodyLimitOf(*request, most_body_, most_binary_);
    CheckLength(content_length(), error);
  }
  void on_body_init_impl(const boost::optional<uint64_t>& length, error_code& error) override {
    CheckLength(length, error);  // again: where the body's first bytes have come, too, Beast goes on after the headers
    if (error) return;
    // Memory follows what has come: a length is only a claim.
    constexpr uint64_t kTrusted = uint64_t{1} << 20;
    if (length) request->body.reserve(static_cast<size_t>(std::min(*length, kTrusted)));
  }
  size_t on_body_impl(string_view bytes, error_code& error) override { return Append(bytes, error); }
  void on_chunk_header_impl(uint64_t, string_view, error_code& error) override { error = {}; }
  size_t on_chunk_body_impl(uint64_t, string_view bytes, error_code& error) override { return Append(bytes, error); }
  void on_finish_impl(error_code& error) override { error = {}; }

  void CheckLength(const boost::optional<uint64_t>& length, error_code& error) const {
    error = {};
    if (length && *length > limit.bytes) error = http::error::body_limit;
  }

  size_t Append(string_view bytes, error_code& error) {
    error = {};
    came = request->body.size() + bytes.size();
    if (bytes.size() > limit.bytes - request->body.size()) {
      error = http::error::body_limit;
      return 0;
    }
    request->body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
};

}  // namespace

struct Http1Parser::State {
  const size_t most_body, most_binary, most_header;
  std::optional<Parser> parser;
  int status = 0;
  bool fresh = true;
  size_t skipped = 0;  // ends of lines before the request
  size_t too_few = 0;  // so many bytes were left over the last time: only more of them help
};

Http1Parser::Http1Parser(size_t most_body, size_t most_binary, size_t most_header)
    : state_(std::make_unique<State>(State{most_body, most_binary, most_header, std::nullopt, 0, true, 0, 0})) {
  state_->parser.emplace(most_body, most_binary, most_header);
}
Http1Parser::~Http1Parser() = default;

size_t Http1Parser::Feed(std::string_view bytes) {
  // Old clients end a body with an empty line, which is no request.
  constexpr size_t kMostSkipped = 8;
  size_t skipped = 0;
  while (state_->fresh && skipped < bytes.size() && state_->skipped < kMostSkipped &&
         (bytes[skipped] == '\r' || bytes[skipped] == '\n')) {
    ++skipped;
    ++state_->skipped;
  }
  return skipped == bytes.size() ? skipped : skipped + FeedRequest(bytes.substr(skipped));
}

size_t Http1Parser::FeedRequest(std::string_view bytes) {
  // Of chunks, whatever is still to come has five bytes at least ("0", two ends of line), and Beast relies on it; of
  // headers it may be the last end of line alone.
  const size_t least = has_header() ? 5 : 2;
  if (state_->too_few > 0 && bytes.size() < std::max(state_->too_few + 1, least)) return 0;
  state_->too_few = 0;
  size_t taken = 0;
  while (taken < bytes.size() && !state_->parser->is_done() && state_->status == 0) {
    error_code error;
    const size_t used =
        state_->parser->put(boost::asio::const_buffer(bytes.data() + taken, bytes.size() - taken), error);
    taken += used;
    state_->fresh = state_->fresh && used == 0 && bytes.empty();
    if (error == http::error::need_more) {
      state_->too_few = bytes.size() - taken;
      break;
    }
    if (error) state_->status = error == http::error::body_limit ? 413 : error == http::error::header_limit ? 431 : 400;
    if (used == 0 && !error) break;
  }
  if (!bytes.empty()) state_->fresh = false;
  return taken;
}

bool Http1Parser::has_header() const { return state_->parser->is_header_done(); }
bool Http1Parser::is_done() const { return state_->parser->is_done(); }
int Http1Parser::status() const { return state_->status; }
HttpResponse Http1Parser::TooLarge() const {
  return state_->parser->limit.Refuse(*state_->parser->request, state_->parser->came);
}
bool Http1Parser::keep_alive() const { return state_->parser->keep_alive(); }
bool Http1Parser::is_old() const { return state_->parser->is_old; }
bool Http1Parser::expects_continue() const { return state_->parser->expects_continue; }
bool Http1Parser::is_fresh() const { return state_->fresh; }

std::shared_ptr<HttpRequest> Http1Parser::TakeRequest() {
  std::shared_ptr<HttpRequest> request = std::move(state_->parser->request);
  state_->parser.emplace(state_->most_body, state_->most_binary, state_->most_header);
  state_->fresh = true;
  state_->too_few = state_->skipped = 0;
  return request;
}

}  // namespace ferry::server

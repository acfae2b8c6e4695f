#include "server/http_message.h"

#include <algorithm>
#include <charconv>

#include "server/event_loop.h"
#include "server/json_cursor.h"

namespace ferry::server {

const std::string* FindHeader(const HeaderList& headers, std::string_view name) {
  for (const auto& [key, value] : headers)
    if (key == name) return &value;
  return nullptr;
}

namespace {

std::optional<uint64_t> NumberIn(const HttpRequest& request, std::string_view header) {
  const std::string* text = request.Find(header);
  uint64_t number = 0;
  if (!text) return std::nullopt;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return number;
}

}  // namespace

BodyLimit BodyLimitOf(const HttpRequest& request, size_t most_body, size_t most_binary) {
  using Kind = BodyLimit::Kind;
  if (const std::string* coding = request.Find("content-encoding"); coding && !coding->empty() && *coding != "identity")
    return {Kind::kPacked, most_body};
  const std::optional<uint64_t> json = NumberIn(request, "inference-header-content-length");
  if (!json || *json > most_body || request.target.find("/infer") == std::string::npos) return {Kind::kJson, most_body};
  return *json == 0 ? BodyLimit{Kind::kRaw, most_body} : BodyLimit{Kind::kBinary, std::max(most_body, most_binary)};
}

HttpResponse BodyLimit::Refuse(const HttpRequest& request, size_t came) const {
  // What came in chunks is at least so large.
  const uint64_t size = std::max(NumberIn(request, "content-length").value_or(0), uint64_t{came});
  constexpr const char* kAdvice = " bytes. Use --http-max-input-size to increase the limit.";
  switch (kind) {
    case Kind::kJson:
      return ErrorResponse(
          400, Cat("request JSON size of ", NumberIn(request, "inference-header-content-length").value_or(size),
                   " bytes exceeds the maximum allowed input size of ", bytes, kAdvice));
    case Kind::kRaw:
      return ErrorResponse(400, Cat("Raw input has a byte_size (", size,
                                    " bytes) that exceeds the maximum allowed value of ", bytes, kAdvice));
    case Kind::kPacked: return ErrorResponse(413, Cat("request is larger than the allowed ", bytes, kAdvice));
    default:
      return ErrorResponse(413, Cat("request is larger than the allowed ", bytes,
                                    " bytes. Use --http-max-binary-size to increase the limit."));
  }
}

HttpResponse ErrorResponse(int status, std::string_view message) {
  HttpResponse response;
  response.status = status;
  response.body = "{\"error\":";
  AppendJsonString(response.body, message);
  response.body += '}';
  if (status == 503) response.headers.emplace_back("retry-after", "1");
  return response;
}

HttpResponse ErrorResponse(const Refusal& refusal) {
  return ErrorResponse(HttpStatus(refusal.code()), refusal.message());
}

void Respond::operator()(HttpResponse response) const {
  if (!request_id_.empty()) response.headers.emplace_back("x-request-id", request_id_);
  if (loop_->IsHere()) {
    if (loop_->Find(connection_)) answered_->Answer(exchange_, std::move(response));
    return;
  }
  loop_->Later([loop = loop_, connection = connection_, answered = answered_, exchange = exchange_,
                held = std::make_shared<HttpResponse>(std::move(response))] {
    if (loop->Find(connection)) answered->Answer(exchange, std::move(*held));
  });
}

uint64_t GrpcTimeout(const HttpRequest& request) {
  const std::string* text = request.Find("grpc-timeout");
  if (!text || text->size() < 2) return 0;
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size() - 1, number);
  if (error != std::errc() || end != text->data() + text->size() - 1 || number > 100'000'000) return 0;
  switch (text->back()) {
    case 'H': return number * 3'600'000'000;
    case 'M': return number * 60'000'000;
    case 'S': return number * 1'000'000;
    case 'm': return number * 1'000;
    case 'u': return number;
    case 'n': return number / 1000 + 1;
    default: return 0;
  }
}

const char* ReasonPhrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return "Status";
  }
}

}  // namespace ferry::server

#include "server/http_message.h"

#include <charconv>

#include "server/event_loop.h"
#include "server/json_cursor.h"

namespace ferry::server {

const std::string* FindHeader(const HeaderList& headers, std::string_view name) {
  for (const auto& [key, value] : headers)
    if (key == name) return &value;
  return nullptr;
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

#include "server/trace.h"

#include <charconv>
#include <random>

#include "base/error.h"

namespace ferry::server {
namespace {

std::string Hex(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(number));
  return text;
}

uint64_t Random() {
  thread_local std::mt19937_64 generator(std::random_device{}());
  return generator();
}

// "00-<32 hex>-<16 hex>-<2 hex>"
bool IsTraceParent(std::string_view text) {
  return text.size() >= 55 && text[2] == '-' && text[35] == '-' && text[52] == '-' &&
         text.substr(3, 32).find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         text.substr(36, 16).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Json Attribute(std::string_view key, const std::string& text) {
  return Json().Set("key", key).Set("value", Json().Set("stringValue", text));
}
Json Attribute(std::string_view key, int64_t number) {
  return Json().Set("key", key).Set("value", Json().Set("intValue", Cat(number)));
}

int64_t Number(const Json& value, const std::string& key, int64_t least) {
  const std::string text = value.is_string() ? value.AsString() : value.is_integer() ? value.Dump(-1) : "";
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number < least)
    Refuse(Code::kInvalidArgument, "Unable to parse '", key, "', got: ", Printable(text));
  return number;
}

}  // namespace

Tracer::Tracer(Settings settings) : settings_(std::move(settings)), on_(settings_.on) {
  if (settings_.file.empty()) return;
  file_ = std::fopen(settings_.file.c_str(), "ae");
  if (!file_) Fail(ErrorCode::kIo, "the trace file '", settings_.file, "' cannot be opened");
}

Tracer::~Tracer() {
  if (file_) std::fclose(file_);
}

bool Tracer::Wants(const std::string& trace_parent) {
  if (!on_.load(std::memory_order_relaxed)) return false;
  std::lock_guard lock(mutex_);
  if (!file_ || settings_.count == 0) return false;
  const bool asked = IsTraceParent(trace_parent) && trace_parent.back() == '1';
  if (!asked && (settings_.rate == 0 || seen_++ % settings_.rate != 0)) return false;
  if (settings_.count > 0) --settings_.count;
  return true;
}

void Tracer::Add(const Job& job, const std::string& model, const std::string& version, const char* protocol) {
  const bool has_parent = IsTraceParent(job.request.trace_parent);
  const std::string trace = has_parent ? job.request.trace_parent.substr(3, 32) : Hex(Random()) + Hex(Random());
  const std::string root = Hex(Random());
  const auto steady = Clock::now();
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  auto nanos = [&](Clock::time_point time) {
    return Cat(std::chrono::duration_cast<std::chrono::nanoseconds>(wall - (steady - time)).count());
  };
  Json spans = Json::Array{};
  auto span = [&](const char* name, const std::string& id, const std::string& parent, Clock::time_point begin,
                  Clock::time_point end, Json attributes) {
    Json made = Json().Set("traceId", trace).Set("spanId", id);
    if (!parent.empty()) made.Set("parentSpanId", parent);
    made.Set("name", name)
        .Set("kind", parent == root ? 1 : 2)
        .Set("startTimeUnixNano", nanos(begin))
        .Set("endTimeUnixNano", nanos(end));
    made.Set("attributes", std::move(attributes)).Set("status", Json().Set("code", job.error ? 2 : 1));
    spans.Add(std::move(made));
  };
  span("inference", root, has_parent ? job.request.trace_parent.substr(36, 16) : "", job.received, steady,
       Json(Json::Array{Attribute("model.name", model), Attribute("model.version", version),
                        Attribute("request.id", job.request.id), Attribute("rpc.system", protocol)}));
  if (job.started.time_since_epoch().count() != 0) {
    span("queue", Hex(Random()), root, job.queued, job.started, Json(Json::Array{}));
    span("compute", Hex(Random()), root, job.run_begun, job.run_ended,
         Json(Json::Array{Attribute("batch.rows", job.batch)}));
  }
  const Json line = Json().Set(
      "resourceSpans",
      Json(Json::Array{
          Json()
              .Set("resource", Json().Set("attributes", Json(Json::Array{Attribute("service.name", "ferry-server")})))
              .Set("scopeSpans",
                   Json(Json::Array{
                       Json().Set("scope", Json().Set("name", "ferry-server")).Set("spans", std::move(spans))}))}));
  const std::string text = line.Dump(-1) + "\n";
  std::lock_guard lock(mutex_);
  if (!file_) return;
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

void Tracer::Change(const Json& changes) {
  std::lock_guard lock(mutex_);
  Settings next = settings_;
  for (const auto& [key, value] : changes.AsObject()) {
    if (key == "trace_file")
      Refuse(Code::kUnimplemented, "trace file location can not be updated through network protocol");
    if (value.is_null() || (value.is_array() && value.AsArray().empty())) continue;  // back to what the server has
    const Json& one = value.is_array() ? value.AsArray()[0] : value;
    if (key == "trace_level") {
      const Json list = value.is_array() ? value : Json(Json::Array{value});
      next.on = false;
      for (const Json& level : list.AsArray()) {
        const std::string name = level.is_string() ? level.AsString() : "";
        if (name != "OFF" && name != "TIMESTAMPS" && name != "TENSORS")
          Refuse(Code::kInvalidArgument, "Unable to parse 'trace_level', got: ", Printable(name));
        if (name == "OFF" && list.AsArray().size() > 1)
          Refuse(Code::kInvalidArgument, "Expect only one trace level 'OFF' is specified");
        next.on |= name != "OFF";
      }
    } else if (key == "trace_rate") {
      next.rate = static_cast<uint64_t>(Number(one, key, 0));
    } else if (key == "trace_count") {
      next.count = Number(one, key, -1);
    } else if (key == "log_frequency") {
      next.log_frequency = static_cast<uint64_t>(Number(one, key, 0));
    } else if (key != "trace_mode") {
      Refuse(Code::kInvalidArgument, "unknown trace setting '", Printable(key), "'");
    }
  }
  settings_ = next;
  on_ = settings_.on;
}

Json Tracer::ToJson() const {
  std::lock_guard lock(mutex_);
  return Json()
      .Set("trace_level", Json(Json::Array{settings_.on ? "TIMESTAMPS" : "OFF"}))
      .Set("trace_rate", Cat(settings_.rate))
      .Set("trace_count", Cat(settings_.count))
      .Set("log_frequency", Cat(settings_.log_frequency))
      .Set("trace_file", settings_.file)
      .Set("trace_mode", "opentelemetry");
}

}  // namespace ferry::server

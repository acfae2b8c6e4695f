#include "server/trace.h"

#include <charconv>
#include <random>

#include "base/error.h"
#include "server/datatype.h"

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

int64_t Count(const Json& value) {
  const int64_t count = Number(value, "trace_count", INT64_MIN);
  if (count < -1) Refuse(Code::kInvalidArgument, "Unable to parse 'trace_count'. Expecting value >= -1, got:", count);
  return count;
}

unsigned LevelOf(const Json& value) {
  const Json list = value.is_array() ? value : Json(Json::Array{value});
  unsigned level = 0;
  for (const Json& item : list.AsArray()) {
    const std::string name = item.is_string() ? item.AsString() : "";
    if (name != "OFF" && name != "TIMESTAMPS" && name != "TENSORS")
      Refuse(Code::kInvalidArgument, "Unable to parse 'trace_level', got: ", Printable(name));
    if (name == "OFF" && list.AsArray().size() > 1)
      Refuse(Code::kInvalidArgument, "Expect only one trace level 'OFF' is specified");
    if (name != "OFF") level |= name == "TIMESTAMPS" ? 1U : 2U;
  }
  return level;
}

std::string Described(const Value& value) {
  if (!value.is_tensor()) return value.KindName();
  return Cat(DatatypeName(value.tensor().dtype()), "[", Join(value.tensor().shape().ToVector(), ","), "]");
}

}  // namespace

Tracer::Tracer(Settings settings) : start_(std::move(settings)) {
  all_.level = (start_.timestamps ? unsigned{kTimestamps} : 0) | (start_.tensors ? unsigned{kTensors} : 0);
  all_.rate = start_.rate;
  all_.count = start_.count;
  all_.log_frequency = start_.log_frequency;
  on_ = *all_.level != 0;
  Json attributes = Json::Array{};
  bool has_name = false;
  for (const auto& [key, value] : start_.resource) {
    attributes.Add(Attribute(key, value));
    has_name |= key == "service.name";
  }
  if (!has_name) attributes.Add(Attribute("service.name", "ferry-server"));
  resource_ = Json().Set("attributes", std::move(attributes));
  if (!start_.url.empty()) exporter_ = std::make_unique<OtlpExporter>(start_.url);
  if (start_.file.empty()) return;
  file_ = std::fopen(start_.file.c_str(), "ae");
  if (!file_) Fail(ErrorCode::kIo, "the trace file '", start_.file, "' cannot be opened");
}

Tracer::~Tracer() {
  if (file_) std::fclose(file_);
}

const Tracer::Scope* Tracer::Find(const std::string& model) const {
  auto found = models_.find(model);
  return found == models_.end() ? nullptr : &found->second;
}

bool Tracer::Wants(const std::string& model, const std::string& trace_parent) {
  if (!on_.load(std::memory_order_relaxed)) return false;
  std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  Scope* scope = found == models_.end() ? nullptr : &found->second;
  if ((!file_ && !exporter_) || Of(scope, &Scope::level) == 0 || Of(scope, &Scope::count) == 0) return false;
  const bool asked = IsTraceParent(trace_parent) && trace_parent.back() == '1';
  const uint64_t rate = Of(scope, &Scope::rate);
  if (!asked && (rate == 0 || (scope ? scope->seen : all_.seen)++ % rate != 0)) return false;
  int64_t& count = scope && scope->count ? *scope->count : *all_.count;
  if (count > 0) --count;
  return true;
}

Json Tracer::SpansOf(const Job& job, const std::string& model, const std::string& version, const char* protocol,
                     bool with_tensors) const {
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
  Json about = Json(Json::Array{Attribute("model.name", model), Attribute("model.version", version),
                                Attribute("request.id", job.request.id), Attribute("rpc.system", protocol)});
  if (with_tensors) {
    for (const auto& [name, value] : job.request.inputs) about.Add(Attribute("input." + name, Described(value)));
    for (size_t i = 0; i < job.outputs.size(); ++i)
      about.Add(Attribute("output." + job.output_names[i], Described(job.outputs[i])));
  }
  span("inference", root, has_parent ? job.request.trace_parent.substr(36, 16) : "", job.received, steady,
       std::move(about));
  if (job.started.time_since_epoch().count() != 0) {
    span("queue", Hex(Random()), root, job.queued, job.started, Json(Json::Array{}));
    span("compute", Hex(Random()), root, job.run_begun, job.run_ended,
         Json(Json::Array{Attribute("batch.rows", job.batch)}));
  }
  return Json()
      .Set("resource", resource_)
      .Set("scopeSpans",
           Json(Json::Array{Json().Set("scope", Json().Set("name", "ferry-server")).Set("spans", std::move(spans))}));
}

void Tracer::Add(const Job& job, const std::string& model, const std::string& version, const char* protocol) {
  bool with_tensors;
  {
    std::lock_guard lock(mutex_);
    with_tensors = (Of(Find(model), &Scope::level) & kTensors) != 0;
  }
  const Json spans = SpansOf(job, model, version, protocol, with_tensors);
  if (exporter_) exporter_->Add(spans.Dump(-1));
  if (!file_) return;
  const std::string text = Json().Set("resourceSpans", Json(Json::Array{spans})).Dump(-1) + "\n";
  std::lock_guard lock(mutex_);
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

void Tracer::Flush() {
  if (exporter_) exporter_->Flush();
}

void Tracer::Apply(const Json& changes, Scope& scope) {
  for (const auto& [key, value] : changes.AsObject()) {
    if (key == "trace_file")
      Refuse(Code::kUnimplemented, "trace file location can not be updated through network protocol");
    const bool is_cleared = value.is_null() || (value.is_array() && value.AsArray().empty());
    const Json& one = !is_cleared && value.is_array() ? value.AsArray()[0] : value;
    if (key == "trace_level")
      is_cleared ? scope.level.reset() : void(scope.level = LevelOf(value));
    else if (key == "trace_rate")
      is_cleared ? scope.rate.reset() : void(scope.rate = static_cast<uint64_t>(Number(one, key, 0)));
    else if (key == "trace_count")
      is_cleared ? scope.count.reset() : void(scope.count = Count(one));
    else if (key == "log_frequency")
      is_cleared ? scope.log_frequency.reset() : void(scope.log_frequency = static_cast<uint64_t>(Number(one, key, 0)));
    // Others are left alone, as by Triton.
  }
}

void Tracer::Change(const std::string& model, const Json& changes) {
  std::lock_guard lock(mutex_);
  const Scope* before = model.empty() ? &all_ : Find(model);
  Scope next = before ? *before : Scope();
  Apply(changes, next);
  if (model.empty()) {
    // What is taken back is as the server started with it.
    if (!next.level)
      next.level = (start_.timestamps ? unsigned{kTimestamps} : 0) | (start_.tensors ? unsigned{kTensors} : 0);
    if (!next.rate) next.rate = start_.rate;
    if (!next.count) next.count = start_.count;
    if (!next.log_frequency) next.log_frequency = start_.log_frequency;
    all_ = next;
  } else if (!next.level && !next.rate && !next.count && !next.log_frequency) {
    models_.erase(model);
  } else {
    models_[model] = next;
  }
  bool any = *all_.level != 0;
  for (const auto& [name, scope] : models_) any |= scope.level.value_or(0) != 0;
  on_ = any;
}

Json Tracer::ToJson(const std::string& model) const {
  std::lock_guard lock(mutex_);
  const Scope* scope = Find(model);
  const unsigned level = Of(scope, &Scope::level);
  Json levels = Json::Array{};
  if (level == 0) levels.Add("OFF");
  if (level & kTimestamps) levels.Add("TIMESTAMPS");
  if (level & kTensors) levels.Add("TENSORS");
  return Json()
      .Set("trace_level", std::move(levels))
      .Set("trace_rate", Cat(Of(scope, &Scope::rate)))
      .Set("trace_count", Cat(Of(scope, &Scope::count)))
      .Set("log_frequency", Cat(Of(scope, &Scope::log_frequency)))
      .Set("trace_file", start_.file)
      .Set("trace_mode", start_.mode);
}

}  // namespace ferry::server

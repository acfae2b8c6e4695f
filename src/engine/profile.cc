#include "engine/profile.h"

#include "base/atomic_file.h"
#include "base/process.h"

namespace ferry {
namespace {

double Microseconds(Profile::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// {"float": [2, 10]} of a tensor, the kind of anything else: as readers of onnxruntime's profiles know it.
Json TypeAndShape(const Value& value) {
  if (!value.is_tensor()) return Json().Set(value.KindName(), Json::Array{});
  const Tensor& tensor = value.tensor();
  return Json().Set(Cat(tensor.dtype()), Json::List(tensor.shape().ToVector()));
}

size_t BytesOf(const Value& value) {
  if (value.is_tensor()) return value.tensor().bytes();
  size_t bytes = 0;
  if (value.is_sequence())
    for (const Value& element : value.sequence().elements) bytes += BytesOf(element);
  return bytes;
}

template <class Values>
void Describe(const Values& values, std::string_view which, Json& arguments) {
  Json types = Json::Array{};
  size_t bytes = 0;
  for (const Value* value : values) {
    if (!value || !value->present()) continue;
    types.Add(TypeAndShape(*value));
    bytes += BytesOf(*value);
  }
  arguments.Set(Cat(which, "_type_shape"), std::move(types)).Set(Cat(which, "_size"), bytes);
}

std::string NameOf(const Node& node) {
  if (!node.name.empty() || node.outputs.empty()) return node.name;
  return node.outputs[0];
}

}  // namespace

void Profile::AddStep(const Node& node, std::span<const Value* const> inputs, std::span<Value* const> outputs,
                      Span span) {
  Json arguments;
  arguments.Set("op_name", node.op_type);
  Describe(inputs, "input", arguments);
  Describe(outputs, "output", arguments);
  Add(NameOf(node), "Node", span, std::move(arguments));
}

void Profile::AddSpan(std::string_view name, Span span) { Add(name, "Session", span, Json(Json::Object{})); }

void Profile::Add(std::string_view name, std::string_view category, Span span, Json arguments) {
  Json event;
  event.Set("name", name).Set("cat", category).Set("ph", "X");
  event.Set("ts", Microseconds(span.begin - start_)).Set("dur", Microseconds(span.end - span.begin));
  event.Set("pid", ProcessNumber()).Set("args", std::move(arguments));
  std::lock_guard lock(mutex_);
  if (events_.size() >= kMostEvents) {
    ++dropped_;
    return;
  }
  events_.push_back(event.Set("tid", ThreadNumber()).Dump(-1));
}

int Profile::ThreadNumber() {
  return threads_.emplace(std::this_thread::get_id(), static_cast<int>(threads_.size()) + 1).first->second;
}

size_t Profile::size() const {
  std::lock_guard lock(mutex_);
  return events_.size();
}

int64_t Profile::start_ns() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(start_.time_since_epoch()).count();
}

std::string Profile::ToChromeTrace() const {
  std::lock_guard lock(mutex_);
  std::string text = "[\n";
  Json about = Json().Set("name", "ferry").Set("events_dropped", dropped_);
  text += Json()
              .Set("name", "process_name")
              .Set("ph", "M")
              .Set("pid", ProcessNumber())
              .Set("args", std::move(about))
              .Dump(-1);
  for (const std::string& event : events_) (text += ",\n") += event;
  return text + "\n]\n";
}

void Profile::Write(const std::string& path) const {
  AtomicFile file(path);
  file.Write(ToChromeTrace());
  file.Commit();
}

}  // namespace ferry

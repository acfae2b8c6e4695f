#include "torch/script/value.h"

#include <algorithm>

#include "base/error.h"
#include "torch/script/runtime_list.h"

template class std::vector<ferry::torch::script::ScriptValue>;

namespace ferry::torch::script {

ScriptValue::ScriptValue() = default;
ScriptValue::ScriptValue(const ScriptValue&) = default;
ScriptValue::ScriptValue(ScriptValue&&) noexcept = default;
ScriptValue& ScriptValue::operator=(const ScriptValue&) = default;
ScriptValue& ScriptValue::operator=(ScriptValue&&) noexcept = default;
ScriptValue::~ScriptValue() = default;
namespace {

constexpr int kDeepest = 64;

Container* ContainerOf(const ScriptValue& value) {
  if (const auto* list = value.get<ScriptValue::List>()) return list->get();
  if (const auto* tuple = value.get<ScriptValue::Tuple>()) return tuple->get();
  if (const auto* dict = value.get<ScriptValue::Dict>()) return dict->get();
  if (const auto* object = value.get<ScriptValue::Object>()) return object->get();
  if (const auto* method = value.get<BoundMethod>()) return method->self.get();
  return nullptr;
}

}  // namespace

void Container::WillHold(const ScriptValue& item) {
  Container* inner = ContainerOf(item);
  if (!inner) return;
  if (is_held || inner == this)
    Fail(ErrorCode::kUnsupported, "a list, dict or object is put into one that is itself inside another");
  inner->is_held = true;
  depth = std::max(depth, inner->depth + 1);
  if (depth > kDeepest) Fail(ErrorCode::kLimit, "lists and tuples nest more than ", kDeepest, " deep");
}

const char* ScriptValue::KindName() const {
  static constexpr const char* kNames[] = {"None",
                                           "a tensor",
                                           "a tensor",
                                           "a number",
                                           "a string",
                                           "a list",
                                           "a tuple",
                                           "a dict",
                                           "an object",
                                           "a method",
                                           "a name",
                                           "a device",
                                           "a value that was never set"};
  return kNames[held.index()];
}

const std::vector<ScriptValue>* ScriptValue::items() const {
  if (const List* list = get<List>()) {
    if ((*list)->runtime) RefuseRuntimeList(*(*list)->runtime, "");
    return &(*list)->items;
  }
  if (const Tuple* tuple = get<Tuple>()) return &(*tuple)->items;
  return nullptr;
}

const RuntimeList* ScriptValue::runtime_list() const {
  const List* list = get<List>();
  return list ? (*list)->runtime.get() : nullptr;
}

ScriptValue MakeTuple(std::vector<ScriptValue> items, const Class* type) {
  auto tuple = std::make_shared<TupleValue>();
  for (const ScriptValue& item : items) tuple->WillHold(item);
  tuple->items = std::move(items);
  tuple->type = type;
  return ScriptValue(ScriptValue::Tuple(std::move(tuple)));
}

}  // namespace ferry::torch::script

// What a variable of a TorchScript program holds while the program is followed: Python's values as they are, tensors as
// values of the ONNX graph.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "torch/lower/call.h"
#include "torch/lower/cell.h"
#include "torch/pickle.h"
#include "torch/script/syntax.h"

namespace ferry::torch::script {

struct ScriptValue;

// What can hold other values. A container inside another one takes no further containers: so nothing ever contains
// itself, or nests deeper than was seen when it was put there.
struct Container {
  int level = 0;  // the body (of If or Loop) it was made in: one that runs in the graph must not change it
  int depth = 1;
  bool is_held = false;

  void WillHold(const ScriptValue& item);  // throws when it may not
};
struct RuntimeList;  // script/runtime_list.h
struct ListValue : Container {
  std::vector<ScriptValue> items;
  std::shared_ptr<const RuntimeList>
      runtime;  // instead of items, where only the running model knows how many there are
};
struct DictValue : Container {
  std::vector<std::pair<ScriptValue, ScriptValue>> items;
};
struct TupleValue : Container {
  std::vector<ScriptValue> items;
  const Class* type = nullptr;  // of a NamedTuple
};
struct ObjectValue : Container {
  const Class* type = nullptr;
  std::string class_name;               // "__torch__.torch.nn.modules.linear.Linear"
  std::string path;                     // of a module: "layers.0.fc1"
  const PickleValue* stored = nullptr;  // attributes that nobody asked for yet
  bool takes_state = false;             // while its own __setstate__ runs
  std::map<std::string, ScriptValue, std::less<>> attributes;
};
// A tensor without dimensions made of a number: what tracing makes of a size before it computes with it.
struct NumberTensor {
  Scalar number;
};
struct BoundMethod {
  const Function* function = nullptr;
  std::shared_ptr<ObjectValue> self;
};
// "torch", "ops.prim", "__torch__.torch.nn.functional": what a dotted name begins with.
struct Namespace {
  std::string name;
};
struct DeviceName {
  std::string name;
};
// A value that there is not: of a variable that one branch only sets.
struct Missing {
  std::string reason;
};

struct ScriptValue {
  using Tensor = std::shared_ptr<Cell>;
  using List = std::shared_ptr<ListValue>;
  using Tuple = std::shared_ptr<TupleValue>;
  using Dict = std::shared_ptr<DictValue>;
  using Object = std::shared_ptr<ObjectValue>;
  using Held = std::variant<std::monostate, Tensor, NumberTensor, Scalar, std::string, List, Tuple, Dict, Object,
                            BoundMethod, Namespace, DeviceName, Missing>;

  ScriptValue();
  ScriptValue(const ScriptValue&);
  ScriptValue(ScriptValue&&) noexcept;
  ScriptValue& operator=(const ScriptValue&);
  ScriptValue& operator=(ScriptValue&&) noexcept;
  ~ScriptValue();
  template <class T>
  requires(std::is_constructible_v<Held, T>) ScriptValue(T value) : held(std::move(value)) {}

  bool is_none() const { return std::holds_alternative<std::monostate>(held); }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(held);
  }
  template <class T>
  const T* get() const {
    return std::get_if<T>(&held);
  }
  bool is_tensor() const { return is<Tensor>() || is<NumberTensor>(); }
  const char* KindName() const;  // "a tensor", "a list" …

  // The items of a list or tuple; null for anything else. Throws when only the running model knows them.
  const std::vector<ScriptValue>* items() const;
  // Of a list whose length only the running model knows; null for anything else.
  const RuntimeList* runtime_list() const;

  Held held;
};

ScriptValue MakeTuple(std::vector<ScriptValue> items, const Class* type = nullptr);

}  // namespace ferry::torch::script

extern template class std::vector<ferry::torch::script::ScriptValue>;

// Lists whose length only the running model knows: what a loop appends to, or a tensor taken apart along an open axis.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "torch/script/interpreter.h"

namespace ferry::torch::script {

struct RuntimeList {
  Operand stacked;                     // the items along a new first axis, where they have one shape; or
  Operand sequence;                    // an ONNX sequence of them
  Type item;                           // what is known of every item
  std::optional<Scalar::Kind> number;  // the items are numbers
  Sharing shares;                      // what the items were, which PyTorch does not copy

  // While a loop is followed that adds an item in every round: they become a scan output if nobody looks at them.
  struct Collected {
    int level = 0;  // of the loop's body
    std::vector<ScriptValue> items;
  };
  std::shared_ptr<Collected> collected;
};

// Thrown when somebody looks at a list that is being collected.
struct ListIsRead {
  const RuntimeList* list;
};

// Throws: kUnsupported naming the function, or ListIsRead.
[[noreturn]] void RefuseRuntimeList(const RuntimeList& list, std::string_view function);

ScriptValue MakeRuntimeList(Interpreter& in, RuntimeList list);
// The same items as a list of the running model: nothing when they are no tensors or numbers of one type. `like` says
// what the items of an empty list would be.
std::optional<RuntimeList> AsRuntimeList(Interpreter& in, const ScriptValue& list, const RuntimeList* like = nullptr);
// What items that are tensors or numbers have in common.
std::optional<RuntimeList> DescribeItems(Interpreter& in, const std::vector<ScriptValue>& items);
Operand SequenceOf(Interpreter& in, const RuntimeList& list);
Scalar LengthOf(Interpreter& in, const RuntimeList& list);
ScriptValue ItemAt(Interpreter& in, const RuntimeList& list, const Scalar& index);
// Of a list whose items are known, at a place that is not.
ScriptValue ItemAt(Interpreter& in, const std::vector<ScriptValue>& items, const Scalar& index);

// Functions that are given such a list; nothing when none of the arguments is one.
std::optional<ScriptValue> CallRuntimeListFunction(Interpreter& in, std::string_view name, const Arguments& args);

// The element type that a Python number has where the graph carries it.
DType CarriedType(Scalar::Kind kind);
Operand CarriedOperand(Interpreter& in, const ScriptValue& tensor_or_number);

}  // namespace ferry::torch::script

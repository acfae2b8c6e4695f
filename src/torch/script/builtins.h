// Functions of TorchScript that work on Python's values: numbers, lists, dicts, strings, sizes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "torch/script/interpreter.h"

namespace ferry::torch::script {

// Gives nothing when the function is not one of these, or its arguments are tensors.
std::optional<ScriptValue> CallNumberFunction(Interpreter& interpreter, std::string_view name, const Arguments& args);
std::optional<ScriptValue> CallContainerFunction(Interpreter& interpreter, std::string_view name,
                                                 const Arguments& args);
// What asks for something about a tensor, or makes one from Python's values.
std::optional<ScriptValue> CallTensorFunction(Interpreter& interpreter, std::string_view name, const Arguments& args);

Scalar TruthOf(Interpreter& interpreter, const ScriptValue& value);
Scalar AreEqual(Interpreter& interpreter, const ScriptValue& a, const ScriptValue& b);
Scalar Both(Interpreter& interpreter, const Scalar& a, const Scalar& b);

bool SameKey(const ScriptValue& a, const ScriptValue& b);
const ScriptValue* FindKey(const DictValue& dict, const ScriptValue& key);
size_t ItemIndex(int64_t index, size_t count);  // raises IndexError
std::string ShowValue(const ScriptValue& value);
bool IsInstance(const ScriptValue& value, const Expression& type);
bool AlwaysRaises(const Block& block);

DType DTypeOf(const ScriptValue& number);  // PyTorch's number of an element type
Scalar NumberOfDType(DType dtype);

}  // namespace ferry::torch::script

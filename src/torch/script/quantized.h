// Quantised modules of PyTorch. A quantised tensor is followed as the numbers it stands for, and quantised anew
// wherever PyTorch does: QuantizeLinear and DequantizeLinear, between operators on numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "torch/script/interpreter.h"

namespace ferry::torch::script {

// Objects that hold the weights of a quantised layer; here they are tuples (weight, bias …).
bool IsPackedParams(std::string_view class_name);
ScriptValue UnpackedParams(const ScriptValue& state, std::string_view class_name);

// ops.quantized.NAME
ScriptValue CallQuantized(Interpreter& in, const std::string& name, const Arguments& args);
std::optional<ScriptValue> QuantizePerTensor(Interpreter& in, const Arguments& args);

}  // namespace ferry::torch::script

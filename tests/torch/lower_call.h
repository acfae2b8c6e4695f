// One call of an ATen operator, lowered to a model of its own and run.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "torch/lower/call.h"

namespace ferry::torch {

// A tensor becomes an input of the model; everything else is an argument of the call.
using CallArgument = std::variant<Tensor, Arg>;

std::vector<Tensor> LowerAndRun(const std::string& target,
                                const std::vector<std::pair<std::string, CallArgument>>& arguments);

}  // namespace ferry::torch

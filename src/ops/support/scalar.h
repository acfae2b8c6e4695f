// Inputs that are one number, and results computed in double and stored as whatever type the node asks for.
#pragma once

#include <optional>
#include <span>

#include "graph/model.h"
#include "ops/infer_context.h"

namespace ferry {

// The number in a tensor of one element; `what` names it in the error otherwise.
int64_t ScalarInt(const Tensor& tensor, const char* what);
double ScalarFloat(const Tensor& tensor, const char* what);

// An input of one integer, as far as it is known before running: a number, a name, or unknown.
Dim KnownScalar(const InferContext& context, size_t input);

// Rounds to nearest for floats and toward zero for integers; values must fit.
void StoreDoubles(std::span<const double> values, Tensor& out);

// The numeric element type that an attribute names.
DType NumericTypeAttribute(const Node& node, const char* name);

}  // namespace ferry

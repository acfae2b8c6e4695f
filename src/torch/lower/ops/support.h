// Compositions that rules of several families need.
#pragma once

#include <utility>
#include <vector>

#include "torch/lower/builder.h"

namespace ferry::torch {

Operand TruncOf(Builder& b, const Operand& x);  // toward zero
Operand Log1pOf(Builder& b, const Operand& x);  // precise near 0
Operand HypotOf(Builder& b, const Operand& x, const Operand& y);
Operand Atan2Of(Builder& b, const Operand& y, const Operand& x);
Operand SignBitOf(Builder& b, const Operand& x);  // also of -0
std::pair<double, double> FiniteRange(DType dtype);

// What is written into the model one by one has an end: positions (indices, weights) at 2²⁴, nodes and parts at 2¹⁶.
void RequireFewPositions(double count);
void RequireFewNodes(double count);

// The p-norm of real floats; p may be 0 (how many are not 0) or infinite. No axes means all.
Operand NormAlong(Builder& b, const Operand& x, double p, const std::vector<int64_t>& axes, bool keep_dims);

// Complex tensors as pairs.
Operand MagnitudeOf(Builder& b, const Operand& complex);
Operand MultiplyComplex(Builder& b, const Operand& x, const Operand& y);
Operand DivideComplex(Builder& b, const Operand& x, const Operand& y);

}  // namespace ferry::torch

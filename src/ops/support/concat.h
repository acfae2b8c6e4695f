// Tensors side by side along one axis: Concat, ConcatFromSequence, the stacked outputs of Loop and Scan.
#pragma once

#include <span>

#include "ops/context.h"
#include "ops/infer_context.h"

namespace ferry {

// Writes output i: the parts along `axis`. They must agree in type and in every other dimension.
void WriteConcatenated(OpContext& context, size_t i, std::span<const Tensor* const> parts, int64_t axis);
// Writes output i: the parts, all of one shape, along a new axis.
void WriteStacked(OpContext& context, size_t i, std::span<const Tensor* const> parts, int64_t axis);

// The shape of the same for inference.
SymbolicShape ConcatenatedShape(std::span<const SymbolicShape* const> parts, int64_t axis);

}  // namespace ferry

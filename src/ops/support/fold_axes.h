// Folding a tensor along some of its axes: the part that all reductions share.
#pragma once

#include <vector>

#include "ops/context.h"

namespace ferry {

enum class Fold : uint8_t { kSum, kSumOfAbs, kSumOfSquares, kProduct, kMax, kMin };

// The result has 1 along every axis that `reduced` marks. Sums and products of floats are double; of integers int64,
// and wrap. Max and Min keep the type (float for small floats), NaN wins. An empty set gives 0, 1, or the type's
// extreme.
Tensor FoldAxes(const OpContext& context, const Tensor& x, const std::vector<bool>& reduced, Fold fold);

}  // namespace ferry

// Cutting a tensor into pieces along one axis: Split and SplitToSequence.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/context.h"

namespace ferry {

// `count` lengths that cover `whole`: all alike, the last ones smaller when it does not divide.
std::vector<int64_t> EvenLengths(int64_t whole, int64_t count);
// Requires lengths that are not negative and add up to `whole`.
void CheckLengths(const std::vector<int64_t>& lengths, int64_t whole, size_t axis);
// Copies [begin, begin + to.dim(axis)) along `axis` of a movable tensor into `to`.
void CopySlab(const OpContext& context, const Tensor& from, int64_t begin, size_t axis, Tensor& to);

}  // namespace ferry

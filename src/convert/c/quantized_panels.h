// 8-bit steps for x86-64 and arm64: weights laid out for their vectors.
#pragma once

#include <vector>

#include "convert/c/step_writer.h"

namespace ferry::c {

// Rows [columns, depth] in panels of 16 columns, each [depth / 4, 16, 4]; what is missing is 0.
Tensor PackInt8Panels(const Tensor& rows, int64_t columns, int64_t depth);
// Rows [channels, taps] as [pairs of taps, channels, 2].
Tensor PackTapPairs(const Tensor& rows, int64_t channels, int64_t taps);
const std::vector<Helper>& PanelHelpers();

}  // namespace ferry::c

// com.microsoft.nchwc: what ONNX Runtime's optimiser writes at level "all". Its images lie in blocks of channels, as
// wide as the processor's vectors; here they stay [batch, channels, height, width], with the channels up to a whole
// block.
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/support/compose.h"

namespace ferry {

namespace operator_domains {
inline constexpr std::string_view nchwc = "com.microsoft.nchwc";
}

// How many channels are a block on this processor. Files do not say it: ONNX Runtime takes them to be made where they
// run.
int64_t NchwcBlock();

// Filters as the standard has them. `shape` is [outputs, inputs, height, width], the first a multiple of the block; the
// numbers lie [outputs / block, inputs, …, block], where inputs are blocks too [outputs / block, inputs / block, …,
// block, block].
Tensor NchwcFilter(const Tensor& filter, int64_t block, bool inputs_in_blocks);

}  // namespace ferry

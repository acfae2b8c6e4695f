#pragma once

#include "kernels/image.h"

namespace ferry::FERRY_ISA {

inline constexpr int kDepthwisePixels = 7;
void Depthwise(const DepthwiseConv& conv, int64_t first, int64_t last, const float** columns);

extern const WinogradKernels kWinograd2, kWinograd4;

}  // namespace ferry::FERRY_ISA

#pragma once

#include "kernels/nhwc.h"
#include "kernels/simd/target.h"

namespace ferry::FERRY_ISA {

inline constexpr int kDepthwisePixels = 7;
inline constexpr bool kHalfVectors = kLanes >= kLeastHalved;
inline constexpr int kWidestPlanar = kRegisters >= 32 ? 7 : 3;  // wider ones would wait for their sums
void Depthwise(const DepthwiseConv& conv, int64_t first, int64_t last, const float** columns);
void Grouped(const DepthwiseConv& conv, int64_t first, int64_t last, const float** columns);
void Planar(const DepthwiseConv& conv, int64_t first, int64_t last, float* lines);

// The kernel rows that meet the image for one row of outputs, and pointers to the pixels under them: entry
// t · stride_x + kx · dilation_x of a kernel row's line is the pixel that tap kx of output t reads.
struct PixelLines {
  PixelLines(const DepthwiseConv& conv, int64_t row, const float** columns);
  const float* const* columns;
  int64_t line;             // entries from one kernel row to the next
  int64_t first_y, last_y;  // kernel rows that meet the image
};

extern const WinogradKernels kWinograd2, kWinograd4;

}  // namespace ferry::FERRY_ISA

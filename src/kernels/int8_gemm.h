// Products of 8-bit integers with exact 32-bit sums. Both operands come as 16-bit integers with their zero points taken
// off, B packed beforehand: two depths side by side for each column, which is what a multiply-and-add instruction
// takes.
#pragma once

#include <stdint.h>

namespace ferry {

// Columns of a panel; the last one is padded with zeros, as is an odd depth.
inline constexpr int64_t kInt8PanelWidth = 16;

inline int64_t PaddedDepth(int64_t depth) { return (depth + 1) / 2 * 2; }
// 16-bit integers that the packed form of a [depth × columns] matrix takes.
int64_t PackedInt8Size(int64_t depth, int64_t columns);
int64_t PackedInt8Index(int64_t depth, int64_t k, int64_t n);

struct Int8Kernels {
  // c[i][n] = Σ a[i][k] · b[k][n]; rows of `a` are PaddedDepth(depth) long.
  void (*multiply)(const int16_t* a, int64_t rows, int64_t depth, const int16_t* packed, int64_t columns, int32_t* c,
                   int64_t c_stride);
  // The smallest and largest of the numbers and 0; NaN is passed over.
  void (*range)(const float* x, int64_t count, float* low, float* high);
  // y = saturate(round(x / scale) + zero), halves to even; NaN becomes 0.
  void (*quantize)(const float* x, int64_t count, float scale, float zero, uint8_t* y);
};

const Int8Kernels& BestInt8Kernels();

}  // namespace ferry

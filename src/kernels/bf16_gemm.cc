#include "kernels/bf16_gemm.h"

#include <algorithm>

namespace ferry {

void PackBf16Matrix(const float* b, int64_t depth, int64_t columns, int64_t row_stride, int64_t column_stride,
                    uint16_t* packed) {
  constexpr int64_t kBlock = 64;  // depths; even, so that no pair is parted
  const Bf16Kernels& kernels = BestBf16Kernels();
  const int64_t padded = (depth + 1) / 2 * 2;
  float panel[kBlock * kPanelWidth];
  auto pack = [&](int64_t k, int64_t n) {
    const int64_t depths = std::min(kBlock, depth - k), filled = std::min(kPanelWidth, columns - n);
    PackMatrix(b + k * row_stride + n * column_stride, depths, filled, row_stride, column_stride, panel);
    kernels.narrow(panel, depths, packed + n * padded + k * kPanelWidth);
  };
  // Along memory, so that each page is touched once.
  if (column_stride <= row_stride) {
    for (int64_t k = 0; k < depth; k += kBlock)
      for (int64_t n = 0; n < columns; n += kPanelWidth) pack(k, n);
  } else {
    for (int64_t n = 0; n < columns; n += kPanelWidth)
      for (int64_t k = 0; k < depth; k += kBlock) pack(k, n);
  }
}

}  // namespace ferry

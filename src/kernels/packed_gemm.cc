#include "kernels/packed_gemm.h"

#include <algorithm>

#include "kernels/isa.h"

namespace ferry {

int64_t PackedSize(int64_t depth, int64_t columns) {
  return depth * ((columns + kPanelWidth - 1) / kPanelWidth * kPanelWidth);
}

int64_t PackedIndex(int64_t depth, int64_t k, int64_t n) {
  return depth * (n / kPanelWidth * kPanelWidth) + k * kPanelWidth + n % kPanelWidth;
}

namespace {

// Columns that lie apart are read along their length, a few cache lines of the result at a time.
void PackColumns(const float* b, int64_t depth, int64_t filled, int64_t column_stride, float* packed) {
  constexpr int64_t kBlock = 64;
  for (int64_t first = 0; first < depth; first += kBlock) {
    int64_t last = std::min(depth, first + kBlock);
    for (int64_t n = 0; n < filled; ++n)
      for (int64_t k = first; k < last; ++k) packed[k * kPanelWidth + n] = b[k + n * column_stride];
  }
}

}  // namespace

void PackMatrix(const float* b, int64_t depth, int64_t columns, int64_t row_stride, int64_t column_stride,
                float* packed) {
  for (int64_t first = 0; first < columns; first += kPanelWidth, packed += depth * kPanelWidth) {
    int64_t filled = std::min(kPanelWidth, columns - first);
    const float* from = b + first * column_stride;
    if (filled < kPanelWidth) std::fill_n(packed, depth * kPanelWidth, 0.0f);
    if (column_stride == 1)
      for (int64_t k = 0; k < depth; ++k) std::copy_n(from + k * row_stride, filled, packed + k * kPanelWidth);
    else if (row_stride == 1)
      PackColumns(from, depth, filled, column_stride, packed);
    else
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t n = 0; n < filled; ++n) packed[k * kPanelWidth + n] = from[k * row_stride + n * column_stride];
  }
}

}  // namespace ferry

#include "kernels/packed_gemm.h"

#include <algorithm>

#include "kernels/isa.h"

namespace ferry {

// Panels are 32 columns wide; what is left over takes one of 16 when that is enough.
static int64_t LastPanelWidth(int64_t columns) {
  int64_t rest = columns % kPanelWidth;
  return rest == 0 ? 0 : rest <= kPanelWidth / 2 ? kPanelWidth / 2 : kPanelWidth;
}

int64_t PackedSize(int64_t depth, int64_t columns) {
  return depth * (columns / kPanelWidth * kPanelWidth + LastPanelWidth(columns));
}

int64_t PackedIndex(int64_t depth, int64_t columns, int64_t k, int64_t n) {
  int64_t first = n / kPanelWidth * kPanelWidth;
  int64_t width = columns - first >= kPanelWidth ? kPanelWidth : LastPanelWidth(columns);
  return depth * first + k * width + n - first;
}

void PackMatrix(const float* b, int64_t depth, int64_t columns, int64_t row_stride, int64_t column_stride, float* packed) {
  for (int64_t first = 0; first < columns; first += kPanelWidth) {
    int64_t width = columns - first >= kPanelWidth ? kPanelWidth : LastPanelWidth(columns);
    int64_t filled = std::min(width, columns - first);
    const float* from = b + first * column_stride;
    for (int64_t k = 0; k < depth; ++k, packed += width) {
      for (int64_t n = 0; n < filled; ++n) packed[n] = from[k * row_stride + n * column_stride];
      for (int64_t n = filled; n < width; ++n) packed[n] = 0.0f;
    }
  }
}

}  // namespace ferry

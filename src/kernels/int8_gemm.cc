#include "kernels/int8_gemm.h"

namespace ferry {

int64_t PackedInt8Size(int64_t depth, int64_t columns) {
  return PaddedDepth(depth) * ((columns + kInt8PanelWidth - 1) / kInt8PanelWidth * kInt8PanelWidth);
}

int64_t PackedInt8Index(int64_t depth, int64_t k, int64_t n) {
  int64_t panel = n / kInt8PanelWidth, column = n % kInt8PanelWidth;
  return panel * PaddedDepth(depth) * kInt8PanelWidth + k / 2 * (2 * kInt8PanelWidth) + 2 * column + k % 2;
}

}  // namespace ferry

#include "kernels/int8_gemm.h"

namespace ferry {

int64_t PaddedDepth(int64_t depth) {
  int64_t multiple = BestInt8Kernels().depth_multiple;
  return (depth + multiple - 1) / multiple * multiple;
}

int64_t PackedInt8Size(int64_t depth, int64_t columns) { return PaddedDepth(depth) * PaddedColumns(columns); }

int64_t PackedInt8Index(int64_t depth, int64_t k, int64_t n) {
  int64_t unit = BestInt8Kernels().depth_unit, panel = n / kInt8PanelWidth, column = n % kInt8PanelWidth;
  return (panel * PaddedDepth(depth) + k / unit * unit) * kInt8PanelWidth + column * unit + k % unit;
}

}  // namespace ferry

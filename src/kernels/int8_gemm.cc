#include "kernels/int8_gemm.h"

namespace ferry {

int64_t PaddedDepth(int64_t depth) {
  int64_t multiple = BestInt8Kernels().depth_multiple;
  return (depth + multiple - 1) / multiple * multiple;
}

int64_t PackedInt8Size(int64_t depth, int64_t columns) { return PaddedDepth(depth) * PaddedColumns(columns); }

namespace {

int64_t IndexInPanels(int64_t depth, int64_t unit, int64_t k, int64_t n) {
  int64_t panel = n / kInt8PanelWidth, column = n % kInt8PanelWidth;
  return (panel * PaddedDepth(depth) + k / unit * unit) * kInt8PanelWidth + column * unit + k % unit;
}

}  // namespace

int64_t PackedInt8Index(int64_t depth, int64_t k, int64_t n) {
  return IndexInPanels(depth, BestInt8Kernels().depth_unit, k, n);
}

int64_t PackedShortsIndex(int64_t depth, int64_t k, int64_t n) { return IndexInPanels(depth, kShortsUnit, k, n); }

}  // namespace ferry

// The weights of a convolution as panels for a product: B[k = tap · channels + c, n = feature].
#pragma once

#include <vector>

#include "kernels/packed_gemm.h"
#include "ops/support/conv.h"

namespace ferry {

// A part of the taps whose weights are packed together: few enough for a panel to stay in the second-level cache.
struct TapChunk {
  int64_t first, count;

  // Where it begins in the panels of `columns` of a convolution's features.
  int64_t Offset(const ConvPlan& conv, int64_t columns) const {
    return PackedSize(first * conv.group_channels, columns);
  }
};

std::vector<TapChunk> CutTaps(const ConvPlan& conv, bool whole);

struct Filters {
  // Features [first, first + count), of one group where there are several.
  void Pack(const ConvPlan& conv, int64_t first, int64_t count, float* panels) const;
  // All of them, group after group.
  void PackGroups(const ConvPlan& conv, float* panels) const;
  // The same as bfloat16, for a single chunk.
  void PackBf16Groups(const ConvPlan& conv, uint16_t* panels) const;

  Tensor weight;              // [feature, channel, tap] as Conv has them
  std::vector<int64_t> taps;  // the places of the plan's taps among those
  std::vector<TapChunk> chunks;
};

}  // namespace ferry

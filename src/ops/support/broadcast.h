// Walking broadcast operands: the result is visited in runs along the last axis, each operand by its own strides.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tensor/shape.h"

namespace ferry {

// Strides (in elements) of an operand seen under the broadcast result `out`: 0 along stretched axes.
std::vector<int64_t> BroadcastStrides(const Shape& operand, const Shape& out);

// Visits a result of shape `out` in contiguous runs: visit(result_offset, {operand offsets}, run_length, {operand
// strides along the run}). Axes that all operands walk alike are merged first, so runs are as long as they can be.
template <size_t N, class Visit>
void ForEachRun(const Shape& out, const std::array<const Shape*, N>& operands, const Visit& visit) {
  struct Axis {
    int64_t size;
    std::array<int64_t, N> strides;
  };
  std::vector<Axis> axes;
  std::array<std::vector<int64_t>, N> strides;
  for (size_t n = 0; n < N; ++n) strides[n] = BroadcastStrides(*operands[n], out);
  for (size_t a = 0; a < out.rank(); ++a) {
    if (out[a] == 0) return;
    if (out[a] == 1) continue;
    Axis axis{out[a], {}};
    for (size_t n = 0; n < N; ++n) axis.strides[n] = strides[n][a];
    bool merges = !axes.empty();
    for (size_t n = 0; n < N && merges; ++n) merges = axes.back().strides[n] == axis.strides[n] * axis.size;
    if (merges) {
      axes.back().size *= axis.size;
      axes.back().strides = axis.strides;
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({1, {}});
  Axis run = axes.back();
  axes.pop_back();
  std::array<int64_t, N> offsets{};
  std::vector<int64_t> index(axes.size());
  for (int64_t result = 0;; result += run.size) {
    visit(result, offsets, run.size, run.strides);
    size_t a = axes.size();
    for (;;) {
      if (a-- == 0) return;
      for (size_t n = 0; n < N; ++n) offsets[n] += axes[a].strides[n];
      if (++index[a] < axes[a].size) break;
      for (size_t n = 0; n < N; ++n) offsets[n] -= axes[a].strides[n] * axes[a].size;
      index[a] = 0;
    }
  }
}

}  // namespace ferry

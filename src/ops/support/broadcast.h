// Walking broadcast operands: the result is visited in runs along the last axis, each operand by its own strides.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tensor/shape.h"

namespace ferry {

// Strides (in elements) of an operand seen under the broadcast result `out`: 0 along stretched axes.
std::vector<int64_t> BroadcastStrides(const Shape& operand, const Shape& out);

// A result of shape `out` as contiguous runs of equal length. Axes that all operands walk alike are merged first, so
// runs are as long as they can be; along a run the stride of an operand is 0 or 1.
template <size_t N>
class BroadcastWalk {
 public:
  using Offsets = std::array<int64_t, N>;

  BroadcastWalk(const Shape& out, const std::array<const Shape*, N>& operands) {
    std::array<std::vector<int64_t>, N> strides;
    for (size_t n = 0; n < N; ++n) strides[n] = BroadcastStrides(*operands[n], out);
    for (size_t a = 0; a < out.rank(); ++a) {
      if (out[a] == 0) runs_ = 0;
      if (out[a] == 1) continue;
      Axis axis{out[a], {}};
      for (size_t n = 0; n < N; ++n) axis.strides[n] = strides[n][a];
      bool merges = !axes_.empty();
      for (size_t n = 0; n < N && merges; ++n) merges = axes_.back().strides[n] == axis.strides[n] * axis.size;
      if (merges) {
        axes_.back().size *= axis.size;
        axes_.back().strides = axis.strides;
      } else {
        axes_.push_back(axis);
      }
    }
    if (!axes_.empty()) {
      run_ = axes_.back();
      axes_.pop_back();
    }
    for (const Axis& axis : axes_) runs_ *= axis.size;
  }

  int64_t runs() const { return runs_; }
  int64_t run_length() const { return run_.size; }
  const Offsets& run_strides() const { return run_.strides; }

  // visit(result offset, operand offsets) for the runs [first, last).
  template <class Visitor>
  void Visit(int64_t first, int64_t last, const Visitor& visit) const {
    if (first >= last) return;
    Offsets offsets{};
    std::vector<int64_t> index(axes_.size());
    int64_t rest = first;
    for (size_t a = axes_.size(); a-- > 0;) {
      index[a] = rest % axes_[a].size;
      rest /= axes_[a].size;
      for (size_t n = 0; n < N; ++n) offsets[n] += index[a] * axes_[a].strides[n];
    }
    for (int64_t run = first; run < last; ++run) {
      visit(run * run_.size, offsets);
      for (size_t a = axes_.size(); a-- > 0;) {
        for (size_t n = 0; n < N; ++n) offsets[n] += axes_[a].strides[n];
        if (++index[a] < axes_[a].size) break;
        for (size_t n = 0; n < N; ++n) offsets[n] -= axes_[a].strides[n] * axes_[a].size;
        index[a] = 0;
      }
    }
  }

 private:
  struct Axis {
    int64_t size;
    Offsets strides;
  };
  std::vector<Axis> axes_;  // outside the run
  Axis run_{1, {}};
  int64_t runs_ = 1;
};

// All runs one after the other: visit(result offset, operand offsets, run length, operand strides along the run).
template <size_t N, class Visit>
void ForEachRun(const Shape& out, const std::array<const Shape*, N>& operands, const Visit& visit) {
  BroadcastWalk<N> walk(out, operands);
  walk.Visit(0, walk.runs(), [&](int64_t result, const std::array<int64_t, N>& offsets) {
    visit(result, offsets, walk.run_length(), walk.run_strides());
  });
}

}  // namespace ferry

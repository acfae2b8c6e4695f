// Sliding windows: what convolutions and poolings read from their attributes and how outputs come out of inputs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/model.h"
#include "graph/type.h"

namespace ferry {

enum class AutoPad : uint8_t { kNotSet, kSameUpper, kSameLower, kValid };

// auto_pad, kernel_shape, strides, dilations, pads and ceil_mode, checked and with their defaults. An entry of `kernel`
// is 0 while it is not known (inference with symbolic weights).
struct WindowAttributes {
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil_mode = false;
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;

  // `weight_kernel` is the kernel as the weights have it; empty for poolings, where kernel_shape is required.
  static WindowAttributes Read(const Node& node, size_t spatial_rank, std::span<const Dim> weight_kernel);
  // (kernel − 1) · dilation + 1
  int64_t Extent(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
};

AutoPad ReadAutoPad(const Node& node);
// An attribute with one value per spatial axis, each at least `least`; `otherwise` everywhere when absent.
std::vector<int64_t> ReadPerAxis(const Node& node, std::string_view name, size_t count, int64_t otherwise,
                                 int64_t least);

struct WindowAxis {
  int64_t input = 0, output = 0;
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t pad_begin = 0, pad_end = 0;

  // The input position of a kernel tap; outside [0, input) it is padding.
  int64_t Position(int64_t out, int64_t tap) const { return out * stride - pad_begin + tap * dilation; }
};

std::vector<WindowAxis> PlanWindow(const WindowAttributes& window, std::span<const int64_t> input);
// The same on a dimension that may be symbolic: a name stays where the size surely does not change.
Dim InferWindow(const WindowAttributes& window, size_t axis, const Dim& input);

// The products of all input, output and kernel sizes.
struct WindowCounts {
  int64_t input = 1, output = 1, taps = 1;
};
WindowCounts CountWindow(std::span<const WindowAxis> axes);

// [begin, end) of the outputs along an axis for which this tap falls inside the input.
struct OutputRange {
  int64_t begin, end;
};
OutputRange ValidOutputs(const WindowAxis& axis, int64_t tap);

// Goes through all output rows (runs along the last axis) and, for each, through the kernel rows that meet the input:
// visit(row, first_tap, offset), where `offset` is that of the input row the kernel row lies on. Taps come in order.
template <class Visit>
void ForEachKernelRow(std::span<const WindowAxis> axes, const Visit& visit) {
  size_t outer_rank = axes.size() - 1;
  std::vector<int64_t> at(outer_rank), tap(outer_rank);
  WindowCounts counts = CountWindow(axes.first(outer_rank));
  for (int64_t row = 0; row < counts.output; ++row) {
    for (int64_t t = 0; t < counts.taps; ++t) {
      int64_t offset = 0;
      bool inside = true;
      for (size_t a = 0; a < outer_rank && inside; ++a) {
        int64_t position = axes[a].Position(at[a], tap[a]);
        inside = position >= 0 && position < axes[a].input;
        offset = offset * axes[a].input + position;
      }
      if (inside) visit(row, t * axes.back().kernel, offset * axes.back().input);
      for (size_t a = outer_rank; a-- > 0 && ++tap[a] == axes[a].kernel;) tap[a] = 0;
    }
    for (size_t a = outer_rank; a-- > 0 && ++at[a] == axes[a].output;) at[a] = 0;
  }
}

}  // namespace ferry

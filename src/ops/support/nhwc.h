// Channels-last images: [N, spatial…, C]. Passes move whole regions of a network into this layout
// (passes/channels_last); the operators for it live in the internal domain.
#pragma once

#include <array>

#include "kernels/activation.h"
#include "ops/context.h"
#include "ops/infer_context.h"
#include "ops/support/conv.h"
#include "ops/support/pool.h"
#include "ops/support/strided_rows.h"

namespace ferry {

// [N, C, …] to [N, …, C] and back.
Shape ToChannelsLast(const Shape& shape);
Shape ToChannelsFirst(const Shape& shape);
SymbolicShape ToChannelsLast(const SymbolicShape& shape);
SymbolicShape ToChannelsFirst(const SymbolicShape& shape);
std::vector<int64_t> ChannelsLastOrder(size_t rank);  // as Transpose's perm
std::vector<int64_t> ChannelsFirstOrder(size_t rank);

// Windows over one to three spatial axes, as three: missing ones in front have size 1.
std::array<WindowAxis, 3> ThreeAxes(std::span<const WindowAxis> axes);

struct NhwcConvPlan {
  ConvPlan conv;
  Shape output;                 // channels last
  bool channels_first = false;  // of the input: the first layer of a network reads what the caller gave
  std::array<WindowAxis, 3> axes;
};

NhwcConvPlan PlanNhwcConv(const Node& node, const Shape& x, const Shape& w);
// What an NhwcConv makes of its input first: before(x · factor + offset) with a factor and an offset for every
// channel, its inputs 4 and 5; "before" holds the activation's kind and numbers. Padding stays zero.
struct InputScaling {
  const float* factor = nullptr;  // null: it takes x as it is
  const float* offset = nullptr;
  Activation before;
};
InputScaling InputScalingOf(const OpContext& context, int64_t channels, const Activation& before);
Activation ActivationBefore(const Node& conv);

// Sets output 0 of a convolution from the shapes of inputs 0 and 1.
void InferNhwcConv(InferContext& context, DType type);

// The operators of these names where pixels of input 0 may lie apart; those of a pool's output too.
void ComputeNhwcAffine(OpContext& context, const RowLayout& rows);
void ComputeNhwcMaxPool(OpContext& context, const RowLayout& rows);
void ComputeNhwcAveragePool(OpContext& context, const RowLayout& rows);

// Pixel offsets of the taps of one window that lie on the image; how many they are.
inline size_t TapsInside(const std::array<WindowAxis, 3>& axes, int64_t z, int64_t y, int64_t x, int64_t* taps) {
  size_t count = 0;
  for (int64_t kz = 0; kz < axes[0].kernel; ++kz) {
    int64_t at_z = axes[0].Position(z, kz);
    if (at_z < 0 || at_z >= axes[0].input) continue;
    for (int64_t ky = 0; ky < axes[1].kernel; ++ky) {
      int64_t at_y = axes[1].Position(y, ky);
      if (at_y < 0 || at_y >= axes[1].input) continue;
      for (int64_t kx = 0; kx < axes[2].kernel; ++kx) {
        int64_t at_x = axes[2].Position(x, kx);
        if (at_x < 0 || at_x >= axes[2].input) continue;
        taps[count++] = (at_z * axes[1].input + at_y) * axes[2].input + at_x;
      }
    }
  }
  return count;
}

// Calls visit(row, pixel offsets of the taps inside the image, their number) for every output pixel of one image in
// rows [first, last); offsets count pixels.
template <class Visit>
void ForEachWindow(const std::array<WindowAxis, 3>& axes, int64_t first, int64_t last, std::vector<int64_t>& taps,
                   const Visit& visit) {
  const size_t all = static_cast<size_t>(axes[0].kernel * axes[1].kernel * axes[2].kernel);
  taps.resize(2 * all);
  int64_t* pattern = taps.data() + all;  // of a window that begins at pixel 0
  for (int64_t kz = 0; kz < axes[0].kernel; ++kz)
    for (int64_t ky = 0; ky < axes[1].kernel; ++ky)
      for (int64_t kx = 0; kx < axes[2].kernel; ++kx)
        *pattern++ =
            (kz * axes[0].dilation * axes[1].input + ky * axes[1].dilation) * axes[2].input + kx * axes[2].dilation;
  auto lies_inside = [](const WindowAxis& axis, int64_t output) {
    return axis.Position(output, 0) >= 0 && axis.Position(output, axis.kernel - 1) < axis.input;
  };
  int64_t x = first % axes[2].output, y = first / axes[2].output % axes[1].output,
          z = first / axes[2].output / axes[1].output;
  for (int64_t row = first; row < last; ++row) {
    size_t count = 0;
    if (lies_inside(axes[2], x) && lies_inside(axes[1], y) && lies_inside(axes[0], z)) {
      int64_t at =
          (axes[0].Position(z, 0) * axes[1].input + axes[1].Position(y, 0)) * axes[2].input + axes[2].Position(x, 0);
      for (; count < all; ++count) taps[count] = at + taps[all + count];
    } else {
      count = TapsInside(axes, z, y, x, taps.data());
    }
    visit(row, taps.data(), static_cast<int64_t>(count));
    if (++x < axes[2].output) continue;
    x = 0;
    if (++y == axes[1].output) y = 0, ++z;
  }
}

}  // namespace ferry

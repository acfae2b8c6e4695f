// Convolutions in groups of a few channels: every element of the image is spread over a vector of its group's features
// and used for all taps of a kernel row that read it.
#include "kernels/simd/depthwise.h"
#include "kernels/simd/finish-inl.h"
#include "kernels/simd/unroll-inl.h"

namespace ferry::FERRY_ISA {
namespace {

constexpr int kWidth = 3;

struct Tile {
  const DepthwiseConv& conv;
  const PixelLines& lines;
  int64_t first_column;  // of the lines
  int64_t feature;       // first of a vector
  float* y;
  const float* residual;
  int pixels;  // that are really there
  Limits limits;
};

template <int kStride>
HWY_INLINE void Accumulate(const Tile& tile, Floats (&acc)[kDepthwisePixels]) {
  const FloatTag d;
  constexpr int kReach = (kDepthwisePixels - 1) * kStride + kWidth;
  constexpr int64_t kStep = static_cast<int64_t>(kLanes);
  const DepthwiseConv& conv = tile.conv;
  const int64_t depth = conv.group_channels, channel = tile.feature / conv.group_features * depth;
  const float* weights =
      conv.weights + (tile.feature * conv.kernel_height + tile.lines.first_y * kStep) * depth * kWidth;
  for (int64_t ky = tile.lines.first_y; ky < tile.lines.last_y; ++ky) {
    const float* const* line = tile.lines.columns + ky * tile.lines.line + tile.first_column;
    const float* pixels[kReach];
    Unroll<0, kReach>([&]<int at>() FERRY_INLINE { pixels[at] = line[at] + channel; });
    for (int64_t c = 0; c < depth; ++c, weights += kWidth * kStep) {
      Floats taps[kWidth];
      Unroll<0, kWidth>([&]<int kx>() FERRY_INLINE { taps[kx] = hn::LoadU(d, weights + kx * kStep); });
      Unroll<0, kReach>([&]<int at>() FERRY_INLINE {
        const Floats element = hn::Set(d, pixels[at][c]);
        Unroll<0, kWidth>([&]<int kx>() FERRY_INLINE {
          constexpr int t = (at - kx) / kStride;
          if constexpr (at >= kx && t * kStride == at - kx && t < kDepthwisePixels)
            acc[t] = hn::MulAdd(element, taps[kx], acc[t]);
        });
      });
    }
  }
}

template <int kStride>
void RunTile(const Tile& tile) {
  const FloatTag d;
  const DepthwiseConv& conv = tile.conv;
  const Floats bias = conv.bias ? hn::LoadU(d, conv.bias + tile.feature) : hn::Zero(d);
  Floats acc[kDepthwisePixels];
  Unroll<0, kDepthwisePixels>([&]<int t>() FERRY_INLINE { acc[t] = bias; });
  Accumulate<kStride>(tile, acc);
  Unroll<0, kDepthwisePixels>([&]<int t>() FERRY_INLINE {
    if (t >= tile.pixels) return;
    const int64_t at = t * conv.features + tile.feature;
    if (tile.residual) acc[t] = hn::Add(acc[t], hn::LoadU(d, tile.residual + at));
    hn::StoreU(tile.limits.Apply(acc[t]), d, tile.y + at);
  });
}

}  // namespace

void Grouped(const DepthwiseConv& conv, int64_t first, int64_t last, const float** columns) {
  void (*const run_tile)(const Tile&) = conv.stride_x == 2 ? RunTile<2> : RunTile<1>;
  for (int64_t row = first; row < last; ++row) {
    const PixelLines lines(conv, row, columns);
    for (int64_t pixel = 0; pixel < conv.out_width; pixel += kDepthwisePixels) {
      const int64_t there = conv.out_width - pixel, offset = (row * conv.out_width + pixel) * conv.features;
      Tile tile{conv,
                lines,
                pixel * conv.stride_x,
                0,
                conv.y + offset,
                conv.residual ? conv.residual + offset : nullptr,
                static_cast<int>(there < kDepthwisePixels ? there : kDepthwisePixels),
                Limits(conv.activation)};
      for (; tile.feature < conv.features; tile.feature += static_cast<int64_t>(kLanes)) run_tile(tile);
      if (!IsLimit(conv.activation.kind)) ActivateSpan(conv.activation, tile.y, tile.pixels * conv.features);
    }
  }
}

}  // namespace ferry::FERRY_ISA

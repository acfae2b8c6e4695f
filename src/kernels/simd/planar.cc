// The first layer of a network: a few planes, one after the other, become pixels of many features. Rows of the planes
// are copied with their padding, and every element is spread over vectors of features for all taps that read it.
#include "kernels/simd/depthwise.h"
#include "kernels/simd/finish-inl.h"
#include "kernels/simd/unroll-inl.h"

namespace ferry::FERRY_ISA {
namespace {

constexpr int kStride = 2;

struct Tile {
  const DepthwiseConv& conv;
  const float* lines;
  int64_t line;     // elements from one line to the next
  int64_t feature;  // first of a vector
  float* y;
  const float* residual;
  int pixels;  // that are really there
  Limits limits;
};

template <int kWidth, class D>
void RunTile(D d, const Tile& tile) {
  constexpr int kReach = (kDepthwisePixels - 1) * kStride + kWidth;
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(D()));
  const DepthwiseConv& conv = tile.conv;
  const int64_t count = conv.kernel_height * conv.channels;
  const hn::Vec<D> bias = conv.bias ? hn::LoadU(d, conv.bias + tile.feature) : hn::Zero(d);
  hn::Vec<D> sums[kDepthwisePixels];
  Unroll<0, kDepthwisePixels>([&]<int t>() FERRY_INLINE { sums[t] = bias; });
  const float* weights = conv.weights + tile.feature * count * kWidth;
  const float* line = tile.lines;
  for (int64_t i = 0; i < count; ++i, line += tile.line, weights += kWidth * kStep) {
    hn::Vec<D> taps[kWidth];
    Unroll<0, kWidth>([&]<int kx>() FERRY_INLINE { taps[kx] = hn::LoadU(d, weights + kx * kStep); });
    Unroll<0, kReach>([&]<int at>() FERRY_INLINE {
      const hn::Vec<D> element = hn::Set(d, line[at]);
      Unroll<0, kWidth>([&]<int kx>() FERRY_INLINE {
        constexpr int t = (at - kx) / kStride;
        if constexpr (at >= kx && t * kStride == at - kx && t < kDepthwisePixels)
          sums[t] = hn::MulAdd(element, taps[kx], sums[t]);
      });
    });
  }
  Unroll<0, kDepthwisePixels>([&]<int t>() FERRY_INLINE {
    if (t >= tile.pixels) return;
    const int64_t at = t * conv.features + tile.feature;
    if (tile.residual) sums[t] = hn::Add(sums[t], hn::LoadU(d, tile.residual + at));
    hn::StoreU(Limited(d, tile.limits, sums[t]), d, tile.y + at);
  });
}

// The rows of all planes that one row of outputs reads.
void CopyLines(const DepthwiseConv& conv, int64_t row, int64_t line, float* to) {
  const int64_t top = row * conv.stride_y - conv.pad_top;
  for (int64_t ky = 0; ky < conv.kernel_height; ++ky)
    for (int64_t c = 0; c < conv.channels; ++c, to += line) {
      const int64_t y = top + ky * conv.dilation_y;
      const bool inside = y >= 0 && y < conv.height;
      const int64_t begin = inside && conv.pad_left < line ? conv.pad_left : line;
      const int64_t end = begin + conv.width < line ? begin + conv.width : line;
      const float* from = conv.x + (c * conv.height + (inside ? y : 0)) * conv.width;
      for (int64_t i = 0; i < begin; ++i) to[i] = 0.0f;
      for (int64_t i = begin; i < end; ++i) to[i] = from[i - begin];
      for (int64_t i = end; i < line; ++i) to[i] = 0.0f;
    }
}

template <int kWidth>
void RunRows(const DepthwiseConv& conv, int64_t first, int64_t last, float* lines) {
  constexpr int64_t kStep = static_cast<int64_t>(kLanes);
  const int64_t tiles = (conv.out_width + kDepthwisePixels - 1) / kDepthwisePixels;
  const int64_t line = (tiles * kDepthwisePixels - 1) * kStride + kWidth;
  for (int64_t row = first; row < last; ++row) {
    CopyLines(conv, row, line, lines);
    const int64_t offset = row * conv.out_width * conv.features;
    Tile tile{conv, lines, line, 0, nullptr, nullptr, 0, Limits(conv.activation)};
    auto run_features = [&](auto d) {
      for (int64_t pixel = 0; pixel < conv.out_width; pixel += kDepthwisePixels) {
        const int64_t there = conv.out_width - pixel, at = offset + pixel * conv.features;
        tile.lines = lines + pixel * kStride;
        tile.y = conv.y + at;
        tile.residual = conv.residual ? conv.residual + at : nullptr;
        tile.pixels = static_cast<int>(there < kDepthwisePixels ? there : kDepthwisePixels);
        RunTile<kWidth>(d, tile);
      }
    };
    for (; tile.feature + kStep <= conv.features; tile.feature += kStep) run_features(FloatTag());
    if constexpr (kHalfVectors)
      if (tile.feature < conv.features) run_features(hn::Half<FloatTag>());
    if (!IsLimit(conv.activation.kind)) ActivateSpan(conv.activation, conv.y + offset, conv.out_width * conv.features);
  }
}

}  // namespace

void Planar(const DepthwiseConv& conv, int64_t first, int64_t last, float* lines) {
  auto run_rows = RunRows<3>;
  if constexpr (kWidestPlanar > 3)
    if (conv.kernel_width > 3) run_rows = RunRows<kWidestPlanar>;
  run_rows(conv, first, last, lines);
}

}  // namespace ferry::FERRY_ISA

#include "kernels/simd/depthwise.h"

#include "kernels/simd/finish-inl.h"

namespace ferry::FERRY_ISA {
namespace {

// A few pixels of one output row. `columns` has a line per kernel row; entry t · stride_x + kx · dilation_x of it is
// the pixel that tap kx of output t reads.
struct Tile {
  const DepthwiseConv& conv;
  const float* const* columns;
  int64_t line;             // entries from one kernel row to the next
  int64_t first_y, last_y;  // kernel rows that meet the image
  float* y;
  const float* residual;
  int pixels;  // that are really there
  Limits limits;
};

// kDirect: no pixel of the tile is padding, so that they lie at equal distances and need no pointers.
template <bool kDirect>
HWY_INLINE void Accumulate(const Tile& tile, int64_t channel, Floats (&sums)[kDepthwisePixels]) {
  const FloatTag d;
  const DepthwiseConv& conv = tile.conv;
  const int64_t stride = conv.stride_x, pixel = stride * conv.channels;
  for (int64_t ky = tile.first_y; ky < tile.last_y; ++ky) {
    const float* HWY_RESTRICT weights = conv.weights + ky * conv.kernel_width * conv.channels + channel;
    const float* const* HWY_RESTRICT taps = tile.columns + ky * tile.line;
    for (int64_t kx = 0; kx < conv.kernel_width; ++kx) {
      const Floats weight = hn::LoadU(d, weights);
      if constexpr (kDirect) {
        const float* HWY_RESTRICT from = taps[0] + channel;
        HWY_UNROLL(8)
        for (int t = 0; t < kDepthwisePixels; ++t) sums[t] =
            hn::MulAdd(weight, hn::LoadU(d, from + t * pixel), sums[t]);
      } else {
        HWY_UNROLL(8)
        for (int t = 0; t < kDepthwisePixels; ++t) sums[t] =
            hn::MulAdd(weight, hn::LoadU(d, taps[t * stride] + channel), sums[t]);
      }
      weights += conv.channels;
      taps += conv.dilation_x;
    }
  }
}

// The last channels when they do not fill a vector: one pixel at a time, nothing read beyond the end.
void RunRest(const Tile& tile, int64_t channel) {
  const FloatTag d;
  const DepthwiseConv& conv = tile.conv;
  const FloatMask mask = hn::FirstN(d, static_cast<size_t>(conv.channels - channel));
  for (int t = 0; t < tile.pixels; ++t) {
    Floats sum = conv.bias ? hn::MaskedLoad(mask, d, conv.bias + channel) : hn::Zero(d);
    for (int64_t ky = tile.first_y; ky < tile.last_y; ++ky)
      for (int64_t kx = 0; kx < conv.kernel_width; ++kx) {
        const float* from = tile.columns[ky * tile.line + t * conv.stride_x + kx * conv.dilation_x] + channel;
        const float* weights = conv.weights + (ky * conv.kernel_width + kx) * conv.channels + channel;
        sum = hn::MulAdd(hn::MaskedLoad(mask, d, weights), hn::MaskedLoad(mask, d, from), sum);
      }
    int64_t at = t * conv.channels + channel;
    if (tile.residual) sum = hn::Add(sum, hn::MaskedLoad(mask, d, tile.residual + at));
    hn::BlendedStore(tile.limits.Apply(sum), mask, d, tile.y + at);
  }
}

template <bool kDirect>
void RunTile(const Tile& tile) {
  const FloatTag d;
  const DepthwiseConv& conv = tile.conv;
  constexpr int64_t kStep = static_cast<int64_t>(kLanes);
  int64_t channel = 0;
  while (channel + kStep <= conv.channels) {
    const Floats bias = conv.bias ? hn::LoadU(d, conv.bias + channel) : hn::Zero(d);
    Floats sums[kDepthwisePixels];
    HWY_UNROLL(8) for (int t = 0; t < kDepthwisePixels; ++t) sums[t] = bias;
    Accumulate<kDirect>(tile, channel, sums);
    for (int t = 0; t < kDepthwisePixels; ++t) {
      if (t >= tile.pixels) break;
      int64_t at = t * conv.channels + channel;
      if (tile.residual) sums[t] = hn::Add(sums[t], hn::LoadU(d, tile.residual + at));
      hn::StoreU(tile.limits.Apply(sums[t]), d, tile.y + at);
    }
    channel += kStep;
    // The last vector may overlap the one before, except where a residual would be read again after it was replaced.
    if (channel < conv.channels && channel + kStep > conv.channels && !tile.residual) channel = conv.channels - kStep;
  }
  if (channel < conv.channels) RunRest(tile, channel);
}

// Fills the pointers of one output row.
void PointAtRow(const DepthwiseConv& conv, int64_t top, int64_t first_y, int64_t last_y, int64_t line,
                const float** columns) {
  for (int64_t ky = first_y; ky < last_y; ++ky) {
    const float* row = conv.x + (top + ky * conv.dilation_y) * conv.width * conv.channels;
    const float** to = columns + ky * line;
    for (int64_t i = 0; i < line; ++i) {
      int64_t x = i - conv.pad_left;
      to[i] = x >= 0 && x < conv.width ? row + x * conv.channels : conv.zeros;
    }
  }
}

}  // namespace

void Depthwise(const DepthwiseConv& conv, int64_t first, int64_t last, const float** columns) {
  const int64_t tiles = (conv.out_width + kDepthwisePixels - 1) / kDepthwisePixels;
  const int64_t reach = (conv.kernel_width - 1) * conv.dilation_x;
  const int64_t line = (tiles * kDepthwisePixels - 1) * conv.stride_x + reach + 1;
  for (int64_t row = first; row < last; ++row) {
    int64_t top = row * conv.stride_y - conv.pad_top;
    int64_t first_y = top >= 0 ? 0 : (-top + conv.dilation_y - 1) / conv.dilation_y;
    int64_t last_y = top >= conv.height ? 0 : (conv.height - 1 - top) / conv.dilation_y + 1;
    if (last_y > conv.kernel_height) last_y = conv.kernel_height;
    if (last_y < first_y) last_y = first_y;
    PointAtRow(conv, top, first_y, last_y, line, columns);
    float* y = conv.y + row * conv.out_width * conv.channels;
    for (int64_t tile_index = 0; tile_index < tiles; ++tile_index) {
      int64_t pixel = tile_index * kDepthwisePixels;
      int64_t left = pixel * conv.stride_x - conv.pad_left;
      int64_t there = conv.out_width - pixel;
      Tile tile{conv,
                columns + pixel * conv.stride_x,
                line,
                first_y,
                last_y,
                y + pixel * conv.channels,
                nullptr,
                static_cast<int>(there < kDepthwisePixels ? there : kDepthwisePixels),
                Limits(conv.activation)};
      if (conv.residual) tile.residual = conv.residual + (row * conv.out_width + pixel) * conv.channels;
      if (left >= 0 && left + (kDepthwisePixels - 1) * conv.stride_x + reach < conv.width)
        RunTile<true>(tile);
      else
        RunTile<false>(tile);
      if (!IsLimit(conv.activation.kind)) ActivateSpan(conv.activation, tile.y, tile.pixels * conv.channels);
    }
  }
}

}  // namespace ferry::FERRY_ISA

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
  int64_t first_channel, last_channel;
  Limits limits;
};

// Every pixel is loaded once for all taps that read it. kWidth and kStride are those of the kernel along the row,
// without dilation.
template <int kWidth, int kStride>
struct Known {
  static HWY_INLINE void Accumulate(const Tile& tile, int64_t channel, Floats (&sums)[kDepthwisePixels]) {
    const FloatTag d;
    const int64_t channels = tile.conv.channels;
    const float* HWY_RESTRICT weights = tile.conv.weights + tile.first_y * kWidth * channels + channel;
    const float* const* HWY_RESTRICT line = tile.columns + tile.first_y * tile.line;
    for (int64_t ky = tile.first_y; ky < tile.last_y; ++ky, line += tile.line, weights += kWidth * channels) {
      Floats taps[kWidth];
      HWY_UNROLL(8) for (int kx = 0; kx < kWidth; ++kx) taps[kx] = hn::LoadU(d, weights + kx * channels);
      HWY_UNROLL(32) for (int at = 0; at < (kDepthwisePixels - 1) * kStride + kWidth; ++at) {
        const Floats pixel = hn::LoadU(d, line[at] + channel);
        HWY_UNROLL(8) for (int kx = 0; kx < kWidth; ++kx) {
          const int t = (at - kx) / kStride;
          if (at >= kx && t * kStride == at - kx && t < kDepthwisePixels)
            sums[t] = hn::MulAdd(taps[kx], pixel, sums[t]);
        }
      }
    }
  }
};

struct Any {
  static HWY_INLINE void Accumulate(const Tile& tile, int64_t channel, Floats (&sums)[kDepthwisePixels]) {
    const FloatTag d;
    const DepthwiseConv& conv = tile.conv;
    for (int64_t ky = tile.first_y; ky < tile.last_y; ++ky)
      for (int64_t kx = 0; kx < conv.kernel_width; ++kx) {
        const Floats weight = hn::LoadU(d, conv.weights + (ky * conv.kernel_width + kx) * conv.channels + channel);
        const float* const* HWY_RESTRICT taps = tile.columns + ky * tile.line + kx * conv.dilation_x;
        HWY_UNROLL(8)
        for (int t = 0; t < kDepthwisePixels; ++t)
          sums[t] = hn::MulAdd(weight, hn::LoadU(d, taps[t * conv.stride_x] + channel), sums[t]);
      }
  }
};

// The last channels when they do not fill a vector: one pixel at a time, nothing read beyond the end.
void RunRest(const Tile& tile, int64_t channel) {
  const FloatTag d;
  const DepthwiseConv& conv = tile.conv;
  const FloatMask mask = hn::FirstN(d, static_cast<size_t>(tile.last_channel - channel));
  for (int t = 0; t < tile.pixels; ++t) {
    Floats sum = conv.bias ? LoadWhere(mask, d, conv.bias + channel) : hn::Zero(d);
    for (int64_t ky = tile.first_y; ky < tile.last_y; ++ky)
      for (int64_t kx = 0; kx < conv.kernel_width; ++kx) {
        const float* from = tile.columns[ky * tile.line + t * conv.stride_x + kx * conv.dilation_x] + channel;
        const float* weights = conv.weights + (ky * conv.kernel_width + kx) * conv.channels + channel;
        sum = hn::MulAdd(LoadWhere(mask, d, weights), LoadWhere(mask, d, from), sum);
      }
    int64_t at = t * conv.channels + channel;
    if (tile.residual) sum = hn::Add(sum, LoadWhere(mask, d, tile.residual + at));
    StoreWhere(tile.limits.Apply(sum), mask, d, tile.y + at);
  }
}

template <class Window>
void RunTile(const Tile& tile) {
  const FloatTag d;
  const DepthwiseConv& conv = tile.conv;
  const Limits limits = tile.limits;
  const bool limited = conv.activation.kind == ActivationKind::kRelu || conv.activation.kind == ActivationKind::kClip;
  const int64_t channels = conv.channels;
  constexpr int64_t kStep = static_cast<int64_t>(kLanes);
  int64_t channel = tile.first_channel;
  while (channel + kStep <= tile.last_channel) {
    const Floats bias = conv.bias ? hn::LoadU(d, conv.bias + channel) : hn::Zero(d);
    Floats sums[kDepthwisePixels];
    HWY_UNROLL(8) for (int t = 0; t < kDepthwisePixels; ++t) sums[t] = bias;
    Window::Accumulate(tile, channel, sums);
    float* y = tile.y + channel;
    if (!tile.residual && tile.pixels == kDepthwisePixels) {
      if (limited) HWY_UNROLL(8) for (int t = 0; t < kDepthwisePixels; ++t) sums[t] = limits.Apply(sums[t]);
      HWY_UNROLL(8) for (int t = 0; t < kDepthwisePixels; ++t, y += channels) hn::StoreU(sums[t], d, y);
    } else {
      const float* residual = tile.residual ? tile.residual + channel : nullptr;
      HWY_UNROLL(8) for (int t = 0; t < kDepthwisePixels; ++t, y += channels) {
        if (t >= tile.pixels) break;
        if (residual) sums[t] = hn::Add(sums[t], hn::LoadU(d, residual + t * channels));
        hn::StoreU(limits.Apply(sums[t]), d, y);
      }
    }
    channel += kStep;
    // The last vector may overlap the one before, except where a residual would be read again after it was replaced.
    bool overlap = channel < tile.last_channel && channel + kStep > tile.last_channel && !tile.residual;
    if (overlap) channel = tile.last_channel - kStep;
  }
  if (channel < tile.last_channel) RunRest(tile, channel);
}

void (*ChooseTile(const DepthwiseConv& conv))(const Tile&) {
  if (conv.dilation_x != 1 || conv.stride_x > 2) return RunTile<Any>;
  bool step = conv.stride_x == 2;
  switch (conv.kernel_width) {
    case 3: return step ? RunTile<Known<3, 2>> : RunTile<Known<3, 1>>;
    case 5: return step ? RunTile<Known<5, 2>> : RunTile<Known<5, 1>>;
    case 7: return step ? RunTile<Any> : RunTile<Known<7, 1>>;
    default: return RunTile<Any>;
  }
}

}  // namespace

PixelLines::PixelLines(const DepthwiseConv& conv, int64_t row, const float** columns) : columns(columns) {
  const int64_t tiles = (conv.out_width + kDepthwisePixels - 1) / kDepthwisePixels;
  line = (tiles * kDepthwisePixels - 1) * conv.stride_x + (conv.kernel_width - 1) * conv.dilation_x + 1;
  const int64_t top = row * conv.stride_y - conv.pad_top;
  first_y = top >= 0 ? 0 : (-top + conv.dilation_y - 1) / conv.dilation_y;
  last_y = top >= conv.height ? 0 : (conv.height - 1 - top) / conv.dilation_y + 1;
  if (last_y > conv.kernel_height) last_y = conv.kernel_height;
  if (last_y < first_y) last_y = first_y;
  const int64_t begin = conv.pad_left < line ? conv.pad_left : line;
  const int64_t end = begin + conv.width < line ? begin + conv.width : line;
  for (int64_t ky = first_y; ky < last_y; ++ky) {
    const float* pixels = conv.x + (top + ky * conv.dilation_y) * conv.width * conv.channels;
    const float** to = columns + ky * line;
    for (int64_t i = 0; i < begin; ++i) to[i] = conv.zeros;
    for (int64_t i = begin; i < end; ++i) to[i] = pixels + (i - begin) * conv.channels;
    for (int64_t i = end; i < line; ++i) to[i] = conv.zeros;
  }
}

// Channels that are worked on together. While an image is in the second-level cache, the rows under the kernel should
// be in the first; a larger one is best read in order.
static int64_t BlockChannels(const DepthwiseConv& conv, int64_t line) {
  constexpr int64_t kFirst = 24 * 1024, kSecond = 256 * 1024, kLeast = 64;
  if (conv.height * conv.width * conv.channels * 4 > kSecond) return conv.channels;
  int64_t fit = kFirst / 4 / (conv.kernel_height * line) / kLeast * kLeast;
  return fit < kLeast ? kLeast : fit;
}

static void ActivatePixels(const Tile& tile) {
  const int64_t channels = tile.conv.channels, count = tile.last_channel - tile.first_channel;
  const bool whole = count == channels;  // pixels lie next to each other
  for (int t = 0; t < (whole ? 1 : tile.pixels); ++t)
    ActivateSpan(tile.conv.activation, tile.y + t * channels + tile.first_channel, whole ? tile.pixels * count : count);
}

void Depthwise(const DepthwiseConv& conv, int64_t first, int64_t last, const float** columns) {
  const int64_t tiles = (conv.out_width + kDepthwisePixels - 1) / kDepthwisePixels;
  const int64_t reach = (conv.kernel_width - 1) * conv.dilation_x;
  const int64_t line = (tiles * kDepthwisePixels - 1) * conv.stride_x + reach + 1;
  const int64_t block = BlockChannels(conv, line);
  void (*const run_tile)(const Tile&) = ChooseTile(conv);
  for (int64_t channel = 0; channel < conv.channels; channel += block) {
    const int64_t end = conv.channels - channel < block ? conv.channels : channel + block;
    for (int64_t row = first; row < last; ++row) {
      const PixelLines lines(conv, row, columns);
      for (int64_t pixel = 0; pixel < conv.out_width; pixel += kDepthwisePixels) {
        int64_t there = conv.out_width - pixel;
        int64_t offset = (row * conv.out_width + pixel) * conv.channels;
        Tile tile{conv,
                  columns + pixel * conv.stride_x,
                  lines.line,
                  lines.first_y,
                  lines.last_y,
                  conv.y + offset,
                  nullptr,
                  static_cast<int>(there < kDepthwisePixels ? there : kDepthwisePixels),
                  channel,
                  end,
                  Limits(conv.activation)};
        if (conv.residual) tile.residual = conv.residual + offset;
        run_tile(tile);
        if (!IsLimit(conv.activation.kind)) ActivatePixels(tile);
      }
    }
  }
}

}  // namespace ferry::FERRY_ISA

// Convolutions in groups of a few channels: every element of the image is spread over a vector of its group's features
// and used for all taps of a kernel row that read it. Small groups share a vector.
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

// A group fills vectors of features.
class WholeVectors {
 public:
  static constexpr bool kHalves = false;
  static constexpr int kChains = 1;
  explicit WholeVectors(const DepthwiseConv& conv) : conv_(conv) {}
  int64_t FirstChannel(int64_t feature) const { return feature / conv_.group_features * conv_.group_channels; }
  template <class D>
  HWY_INLINE hn::Vec<D> Spread(D d, const float* pixel, int64_t c) const {
    return hn::Set(d, pixel[c]);
  }

 private:
  const DepthwiseConv& conv_;
};

// Several groups share a vector; they have as many channels as features, so that it reads a vector of channels.
class SharedVectors {
 public:
  static constexpr bool kHalves = kHalfVectors;
  static constexpr int kChains = kRegisters / 16;  // channels that are added to sums of their own: their number is even
  explicit SharedVectors(const DepthwiseConv& conv) {
    const int32_t size = static_cast<int32_t>(conv.group_features);
    for (int32_t i = 0; i < static_cast<int32_t>(kLanes); ++i) first_[i] = i / size * size;
  }
  int64_t FirstChannel(int64_t feature) const { return feature; }
  template <class D>
  HWY_INLINE hn::Vec<D> Spread(D d, const float* pixel, int64_t c) const {
    const hn::RebindToSigned<D> lanes;
    const auto places = hn::Add(hn::Load(lanes, first_), hn::Set(lanes, static_cast<int32_t>(c)));
    return hn::TableLookupLanes(hn::LoadU(d, pixel), hn::IndicesFromVec(d, places));
  }

 private:
  HWY_ALIGN int32_t first_[kLanes];
};

template <class D, class Groups>
using Sums = hn::Vec<D>[Groups::kChains][kDepthwisePixels];

template <int kStride>
constexpr int kReach = (kDepthwisePixels - 1) * kStride + kWidth;

template <int kStride, class Groups, class D>
HWY_INLINE void AddChannels(D d, const Groups& groups, const float* const (&pixels)[kReach<kStride>], int64_t c,
                            const float* weights, Sums<D, Groups>& sums) {
  constexpr int kChannels = Groups::kChains;
  hn::Vec<D> taps[kChannels * kWidth];
  Unroll<0, kChannels * kWidth>(
      [&]<int i>() FERRY_INLINE { taps[i] = hn::LoadU(d, weights + i * static_cast<int64_t>(hn::MaxLanes(D()))); });
  Unroll<0, kReach<kStride>>([&]<int at>() FERRY_INLINE {
    Unroll<0, kChannels>([&]<int u>() FERRY_INLINE {
      const hn::Vec<D> element = groups.Spread(d, pixels[at], c + u);
      Unroll<0, kWidth>([&]<int kx>() FERRY_INLINE {
        constexpr int t = (at - kx) / kStride;
        if constexpr (at >= kx && t * kStride == at - kx && t < kDepthwisePixels)
          sums[u][t] = hn::MulAdd(element, taps[u * kWidth + kx], sums[u][t]);
      });
    });
  });
}

template <int kStride, class Groups, class D>
HWY_INLINE void Accumulate(D d, const Groups& groups, const Tile& tile, Sums<D, Groups>& sums) {
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(D())) * kWidth;
  constexpr int kChains = Groups::kChains;
  const DepthwiseConv& conv = tile.conv;
  const int64_t depth = conv.group_channels, channel = groups.FirstChannel(tile.feature);
  const float* weights = conv.weights + tile.feature * conv.kernel_height * depth * kWidth;
  weights += tile.lines.first_y * depth * kStep;
  for (int64_t ky = tile.lines.first_y; ky < tile.lines.last_y; ++ky) {
    const float* const* line = tile.lines.columns + ky * tile.lines.line + tile.first_column;
    const float* pixels[kReach<kStride>];
    Unroll<0, kReach<kStride>>([&]<int at>() FERRY_INLINE { pixels[at] = line[at] + channel; });
    for (int64_t c = 0; c < depth; c += kChains, weights += kChains * kStep) {
      if constexpr (kStride == 2) asm volatile("" ::: "memory");  // as many pixels in registers would push sums out
      AddChannels<kStride>(d, groups, pixels, c, weights, sums);
    }
  }
}

template <int kStride, class Groups, class D>
void RunTile(D d, const Groups& groups, const Tile& tile) {
  const DepthwiseConv& conv = tile.conv;
  const hn::Vec<D> bias = conv.bias ? hn::LoadU(d, conv.bias + tile.feature) : hn::Zero(d);
  constexpr int kChains = Groups::kChains;
  Sums<D, Groups> sums;
  Unroll<0, kDepthwisePixels>([&]<int t>() FERRY_INLINE {
    sums[0][t] = bias;
    Unroll<1, kChains>([&]<int u>() FERRY_INLINE { sums[u][t] = hn::Zero(d); });
  });
  Accumulate<kStride>(d, groups, tile, sums);
  Unroll<0, kDepthwisePixels>([&]<int t>() FERRY_INLINE {
    if (t >= tile.pixels) return;
    hn::Vec<D> sum = sums[0][t];
    Unroll<1, kChains>([&]<int u>() FERRY_INLINE { sum = hn::Add(sum, sums[u][t]); });
    const int64_t at = t * conv.features + tile.feature;
    if (tile.residual) sum = hn::Add(sum, hn::LoadU(d, tile.residual + at));
    hn::StoreU(Limited(d, tile.limits, sum), d, tile.y + at);
  });
}

// The features of a last half vector are whole groups too.
template <int kStride, class Groups>
void RunRows(const DepthwiseConv& conv, int64_t first, int64_t last, const float** columns) {
  constexpr int64_t kStep = static_cast<int64_t>(kLanes);
  const Groups groups(conv);
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
      for (; tile.feature + kStep <= conv.features; tile.feature += kStep) RunTile<kStride>(FloatTag(), groups, tile);
      if constexpr (Groups::kHalves)
        if (tile.feature < conv.features) RunTile<kStride>(hn::Half<FloatTag>(), groups, tile);
      if (!IsLimit(conv.activation.kind)) ActivateSpan(conv.activation, tile.y, tile.pixels * conv.features);
    }
  }
}

}  // namespace

void Grouped(const DepthwiseConv& conv, int64_t first, int64_t last, const float** columns) {
  const bool step = conv.stride_x == 2;
  auto run_rows = step ? RunRows<2, WholeVectors> : RunRows<1, WholeVectors>;
  if constexpr (kLanes >= kLeastShared)
    if (conv.group_features < static_cast<int64_t>(kLanes))
      run_rows = step ? RunRows<2, SharedVectors> : RunRows<1, SharedVectors>;
  run_rows(conv, first, last, columns);
}

}  // namespace ferry::FERRY_ISA

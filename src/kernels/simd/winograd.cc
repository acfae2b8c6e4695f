// Winograd's minimal filtering, F(2×2, 3×3) and F(4×4, 3×3): a tile of outputs from one product per position of the
// transformed tile. The transforms work on all channels of a pixel at once.
#include "kernels/packed_gemm.h"
#include "kernels/simd/depthwise.h"
#include "kernels/simd/finish-inl.h"

namespace ferry::FERRY_ISA {
namespace {

HWY_INLINE Floats Add(Floats a, Floats b) { return hn::Add(a, b); }
HWY_INLINE Floats Sub(Floats a, Floats b) { return hn::Sub(a, b); }
HWY_INLINE Floats AddScaled(Floats a, float scale, Floats b) { return hn::MulAdd(hn::Set(FloatTag(), scale), b, a); }

// Filters are transformed once and in double: their errors stay with every image.
#if HWY_TARGET == HWY_WASM  // for which Highway has no vectors of them
using Doubles = double;
constexpr int64_t kDoubles = 1;
HWY_INLINE Doubles LoadDoubles(const float* from) { return static_cast<double>(*from); }
HWY_INLINE void StoreDoubles(Doubles x, float* to) { *to = static_cast<float>(x); }
HWY_INLINE Doubles Add(Doubles a, Doubles b) { return a + b; }
HWY_INLINE Doubles Sub(Doubles a, Doubles b) { return a - b; }
HWY_INLINE Doubles Scaled(double scale, Doubles a) { return scale * a; }
#else
using DoubleTag = hn::ScalableTag<double>;
using NarrowTag = hn::Rebind<float, DoubleTag>;
using Doubles = hn::Vec<DoubleTag>;
constexpr int64_t kDoubles = HWY_LANES(double);
HWY_INLINE Doubles LoadDoubles(const float* from) { return hn::PromoteTo(DoubleTag(), hn::LoadU(NarrowTag(), from)); }
HWY_INLINE void StoreDoubles(Doubles x, float* to) { hn::StoreU(hn::DemoteTo(NarrowTag(), x), NarrowTag(), to); }
HWY_INLINE Doubles Add(Doubles a, Doubles b) { return hn::Add(a, b); }
HWY_INLINE Doubles Sub(Doubles a, Doubles b) { return hn::Sub(a, b); }
HWY_INLINE Doubles Scaled(double scale, Doubles a) { return hn::Mul(hn::Set(DoubleTag(), scale), a); }
#endif

// Points 0, 1, -1, infinity.
struct Tile2 {
  static constexpr int kOutputs = 2, kSize = 4;
  static HWY_INLINE void Input(const Floats* x, int step, Floats* y, int y_step) {
    y[0] = Sub(x[0], x[2 * step]);
    y[y_step] = Add(x[step], x[2 * step]);
    y[2 * y_step] = Sub(x[2 * step], x[step]);
    y[3 * y_step] = Sub(x[step], x[3 * step]);
  }
  static HWY_INLINE void Output(const Floats* x, int step, Floats* y, int y_step) {
    y[0] = Add(Add(x[0], x[step]), x[2 * step]);
    y[y_step] = Sub(Sub(x[step], x[2 * step]), x[3 * step]);
  }
  static HWY_INLINE void Filter(Doubles g0, Doubles g1, Doubles g2, Doubles* y, int y_step) {
    const Doubles even = Scaled(0.5, Add(g0, g2)), odd = Scaled(0.5, g1);
    y[0] = g0;
    y[y_step] = Add(even, odd);
    y[2 * y_step] = Sub(even, odd);
    y[3 * y_step] = g2;
  }
};

// Points 0, 1, -1, 2, -2, infinity.
struct Tile4 {
  static constexpr int kOutputs = 4, kSize = 6;
  static HWY_INLINE void Input(const Floats* x, int step, Floats* y, int y_step) {
    const Floats x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step];
    const Floats even = AddScaled(x4, -4.0f, x2), odd = AddScaled(x3, -4.0f, x1);
    const Floats even2 = Sub(x4, x2), odd2 = Sub(x3, x1);
    y[0] = AddScaled(AddScaled(x4, 4.0f, x[0]), -5.0f, x2);
    y[y_step] = Add(even, odd);
    y[2 * y_step] = Sub(even, odd);
    y[3 * y_step] = AddScaled(even2, 2.0f, odd2);
    y[4 * y_step] = AddScaled(even2, -2.0f, odd2);
    y[5 * y_step] = AddScaled(AddScaled(x[5 * step], 4.0f, x1), -5.0f, x3);
  }
  static HWY_INLINE void Output(const Floats* x, int step, Floats* y, int y_step) {
    const Floats sum1 = Add(x[step], x[2 * step]), difference1 = Sub(x[step], x[2 * step]);
    const Floats sum2 = Add(x[3 * step], x[4 * step]), difference2 = Sub(x[3 * step], x[4 * step]);
    y[0] = Add(Add(x[0], sum1), sum2);
    y[y_step] = AddScaled(difference1, 2.0f, difference2);
    y[2 * y_step] = AddScaled(sum1, 4.0f, sum2);
    y[3 * y_step] = Add(AddScaled(difference1, 8.0f, difference2), x[5 * step]);
  }
  static HWY_INLINE void Filter(Doubles g0, Doubles g1, Doubles g2, Doubles* y, int y_step) {
    const Doubles sum = Scaled(-1.0 / 6, Add(g0, g2)), odd = Scaled(-1.0 / 6, g1);
    const Doubles sum2 = Add(Scaled(1.0 / 24, g0), Scaled(1.0 / 6, g2)), odd2 = Scaled(1.0 / 12, g1);
    y[0] = Scaled(0.25, g0);
    y[y_step] = Add(sum, odd);
    y[2 * y_step] = Sub(sum, odd);
    y[3 * y_step] = Add(sum2, odd2);
    y[4 * y_step] = Sub(sum2, odd2);
    y[5 * y_step] = g2;
  }
};

// Runs body(channel, mask) over all channels; the mask is null for whole vectors.
template <class Body>
HWY_INLINE void ForChannels(int64_t channels, const Body& body) {
  constexpr int64_t kStep = static_cast<int64_t>(kLanes);
  int64_t channel = 0;
  for (; channel + kStep <= channels; channel += kStep) body(channel, static_cast<const FloatMask*>(nullptr));
  if (channel == channels) return;
  const FloatMask mask = hn::FirstN(FloatTag(), static_cast<size_t>(channels - channel));
  body(channel, &mask);
}

HWY_INLINE Floats Load(const float* from, const FloatMask* mask) {
  return mask ? LoadWhere(*mask, FloatTag(), from) : hn::LoadU(FloatTag(), from);
}
HWY_INLINE void Store(Floats x, float* to, const FloatMask* mask) {
  if (mask)
    StoreWhere(x, *mask, FloatTag(), to);
  else
    hn::StoreU(x, FloatTag(), to);
}

template <class Tile>
void Input(const float* const* pixels, int64_t channels, float* v, int64_t stride) {
  constexpr int kSize = Tile::kSize;
  ForChannels(channels, [&](int64_t channel, const FloatMask* mask) {
    Floats columns[kSize * kSize], line[kSize];
    for (int x = 0; x < kSize; ++x) {
      HWY_UNROLL(6) for (int y = 0; y < kSize; ++y) line[y] = Load(pixels[y * kSize + x] + channel, mask);
      Tile::Input(line, 1, columns + x, kSize);
    }
    for (int y = 0; y < kSize; ++y) {
      Tile::Input(columns + y * kSize, 1, line, 1);
      float* to = v + y * kSize * stride + channel;
      HWY_UNROLL(6) for (int x = 0; x < kSize; ++x) Store(line[x], to + x * stride, mask);
    }
  });
}

template <class Tile>
void Output(const WinogradOutput& tile) {
  constexpr int kSize = Tile::kSize, kOutputs = Tile::kOutputs;
  const Limits limits(tile.activation);
  ForChannels(tile.channels, [&](int64_t channel, const FloatMask* mask) {
    const Floats bias = tile.bias ? Load(tile.bias + channel, mask) : hn::Zero(FloatTag());
    Floats columns[kOutputs * kSize], line[kSize];
    for (int x = 0; x < kSize; ++x) {
      HWY_UNROLL(6)
      for (int y = 0; y < kSize; ++y) line[y] = Load(tile.products + (y * kSize + x) * tile.stride + channel, mask);
      Tile::Output(line, 1, columns + x, kSize);
    }
    for (int y = 0; y < kOutputs; ++y) {
      Tile::Output(columns + y * kSize, 1, line, 1);
      for (int x = 0; x < kOutputs; ++x) {
        float* to = tile.y[y * kOutputs + x];
        if (!to) continue;
        Floats sum = Add(line[x], bias);
        if (tile.residual) sum = Add(sum, Load(tile.residual[y * kOutputs + x] + channel, mask));
        Store(limits.Apply(sum), to + channel, mask);
      }
    }
  });
  if (IsLimit(tile.activation.kind)) return;
  for (int i = 0; i < kOutputs * kOutputs; ++i)
    if (tile.y[i]) ActivateSpan(tile.activation, tile.y[i], tile.channels);
}

// G · g · Gᵀ
template <class Tile>
void Filter(const float* taps, int64_t channels, float* to, int64_t stride) {
  constexpr int kSize = Tile::kSize;
  for (int64_t c = 0; c < channels; ++c, taps += 9 * ferry::kPanelWidth, to += ferry::kPanelWidth)
    for (int64_t lane = 0; lane < ferry::kPanelWidth; lane += kDoubles) {
      Doubles columns[kSize * 3], line[kSize];
      for (int x = 0; x < 3; ++x) {
        auto tap = [&](int y) { return LoadDoubles(taps + (y * 3 + x) * ferry::kPanelWidth + lane); };
        Tile::Filter(tap(0), tap(1), tap(2), columns + x, 3);
      }
      for (int y = 0; y < kSize; ++y) {
        Tile::Filter(columns[y * 3], columns[y * 3 + 1], columns[y * 3 + 2], line, 1);
        HWY_UNROLL(6)
        for (int x = 0; x < kSize; ++x)
            StoreDoubles(line[x], to + (y * kSize + x) * stride + lane);
      }
    }
}

}  // namespace

const WinogradKernels kWinograd2 = {2, 16, Input<Tile2>, Output<Tile2>, Filter<Tile2>};
const WinogradKernels kWinograd4 = {4, 36, Input<Tile4>, Output<Tile4>, Filter<Tile4>};

}  // namespace ferry::FERRY_ISA

// Winograd's minimal filtering, F(2×2, 3×3) and F(4×4, 3×3): a tile of outputs from one product per position of the
// transformed tile. The transforms work on all channels of a pixel at once.
#include "kernels/packed_gemm.h"
#include "kernels/simd/add_product-inl.h"
#include "kernels/simd/depthwise.h"
#include "kernels/simd/finish-inl.h"
#include "kernels/simd/unroll-inl.h"

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
  static constexpr int kOutputs = 2, kSize = 4, kParts = 1;
  template <int kPart>
  static HWY_INLINE void Input(const Floats* x, Floats* y, int y_step) {
    y[0] = Sub(x[0], x[2]);
    y[y_step] = Add(x[1], x[2]);
    y[2 * y_step] = Sub(x[2], x[1]);
    y[3 * y_step] = Sub(x[1], x[3]);
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
  // All 36 numbers at once would not fit the registers.
  static constexpr int kOutputs = 4, kSize = 6, kParts = 2;
  template <int kPart>
  static HWY_INLINE void Input(const Floats* x, Floats* y, int y_step) {
    const Floats even2 = Sub(x[4], x[2]), odd2 = Sub(x[3], x[1]);
    if constexpr (kPart == 0) {
      const Floats even = AddScaled(x[4], -4.0f, x[2]), odd = AddScaled(x[3], -4.0f, x[1]);
      y[0] = AddScaled(even2, 4.0f, Sub(x[0], x[2]));
      y[y_step] = Add(even, odd);
      y[2 * y_step] = Sub(even, odd);
    } else {
      y[0] = AddScaled(even2, 2.0f, odd2);
      y[y_step] = AddScaled(even2, -2.0f, odd2);
      y[2 * y_step] = AddScaled(Sub(x[5], x[3]), -4.0f, odd2);
    }
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
void Input(const float* const* pixels, int64_t channels, float* v, int64_t stride, int64_t block_stride) {
  constexpr int kSize = Tile::kSize, kRows = kSize / Tile::kParts;
  ForChannels(channels, [&](int64_t channel, const FloatMask* mask) {
    float* to = v + channel / ferry::kWinogradBlock * block_stride + channel % ferry::kWinogradBlock;
    Unroll<0, Tile::kParts>([&]<int part>() FERRY_INLINE {
      Floats columns[kRows * kSize], line[kSize];
      Unroll<0, kSize>([&]<int x>() FERRY_INLINE {
        Unroll<0, kSize>([&]<int y>() FERRY_INLINE { line[y] = Load(pixels[y * kSize + x] + channel, mask); });
        Tile::template Input<part>(line, columns + x, kSize);
      });
      Unroll<0, kRows>([&]<int y>() FERRY_INLINE {
        Unroll<0, Tile::kParts>(
            [&]<int i>() FERRY_INLINE { Tile::template Input<i>(columns + y * kSize, line + i * kRows, 1); });
        Unroll<0, kSize>([&]<int x>() FERRY_INLINE {
          hn::StoreU(line[x], FloatTag(), to + ((part * kRows + y) * kSize + x) * stride);
        });
      });
    });
  });
}

constexpr int kTileRows = HWY_TARGET == HWY_SCALAR ? 2 : kRegisters == 32 ? 14 : 6;
constexpr int kTileVectors = 2;
constexpr int kPanelVectors = static_cast<int>(ferry::kPanelWidth / kLanes);
constexpr int kUnrolled = 4;
constexpr int64_t kCacheLine = 64;

template <int kRows, int kVectors>
HWY_INLINE void Step(const float* a, const float* b, int64_t panel_stride, Floats (&sums)[kRows][kVectors]) {
  const FloatTag d;
  Floats column[kVectors];
  Unroll<0, kVectors>([&]<int v>() FERRY_INLINE {
    column[v] = hn::LoadU(d, b + v / kPanelVectors * panel_stride + v % kPanelVectors * static_cast<int>(kLanes));
  });
  Unroll<0, kRows>([&]<int i>() FERRY_INLINE {
    const Floats element = hn::Set(d, a[i * ferry::kWinogradBlock]);
    Unroll<0, kVectors>([&]<int v>() FERRY_INLINE { AddProduct(element, column[v], sums[i][v]); });
  });
}

// kVectors of columns, beginning with `first`.
template <int kRows, int kVectors>
HWY_NOINLINE void MultiplyTile(const WinogradProduct& product, int64_t first, const char* ahead) {
  const FloatTag d;
  const int64_t panel_stride = product.channels * ferry::kPanelWidth;
  const float* a = product.rows;
  const float* b =
      product.panels + first / kPanelVectors * panel_stride + first % kPanelVectors * static_cast<int64_t>(kLanes);
  Floats sums[kRows][kVectors];
  Unroll<0, kRows * kVectors>([&]<int i>() FERRY_INLINE { sums[i / kVectors][i % kVectors] = hn::Zero(d); });
  int64_t k = 0;
  for (; k + kUnrolled <= product.channels; b += kUnrolled * ferry::kPanelWidth) {
    const char* const end = ahead + product.ahead_step;
    do {
      __builtin_prefetch(ahead, 0, 2);
      ahead += kCacheLine;
    } while (ahead < end);
    Unroll<0, kUnrolled>(
        [&]<int j>() FERRY_INLINE { Step<kRows, kVectors>(a + j, b + j * ferry::kPanelWidth, panel_stride, sums); });
    k += kUnrolled;
    a += k % ferry::kWinogradBlock ? kUnrolled : kUnrolled + (kRows - 1) * ferry::kWinogradBlock;
  }
  for (; k < product.channels; ++k, ++a, b += ferry::kPanelWidth) Step<kRows, kVectors>(a, b, panel_stride, sums);
  float* to = product.to + first * static_cast<int64_t>(kLanes);
  Unroll<0, kRows * kVectors>([&]<int i>() FERRY_INLINE {
    hn::StoreU(sums[i / kVectors][i % kVectors], d,
               to + i / kVectors * product.to_stride + i % kVectors * static_cast<int>(kLanes));
  });
}

template <int kRows>
void MultiplyRows(const WinogradProduct& product) {
  if constexpr (kRows > 1)
    if (product.row_count < kRows) return MultiplyRows<kRows - 1>(product);
  const int64_t vectors = product.panel_count * kPanelVectors;
  const int64_t ahead_step = product.ahead_step * (product.channels / kUnrolled);
  const char* ahead = product.ahead;
  int64_t first = 0;
  for (; first + kTileVectors <= vectors; first += kTileVectors, ahead += ahead_step)
    MultiplyTile<kRows, kTileVectors>(product, first, ahead);
  if constexpr (kPanelVectors % kTileVectors > 0)
    if (first < vectors) MultiplyTile<kRows, 1>(product, first, ahead);
}

template <class Tile>
void Output(const WinogradOutput& tile) {
  constexpr int kSize = Tile::kSize, kOutputs = Tile::kOutputs;
  const Limits limits(tile.activation);
  ForChannels(tile.channels, [&](int64_t channel, const FloatMask* mask) {
    const int64_t there = tile.offset + channel;
    const Floats bias = tile.bias ? Load(tile.bias + there, mask) : hn::Zero(FloatTag());
    Floats columns[kOutputs * kSize], line[kSize];
    const float* from = tile.products + channel;
    Unroll<0, kSize>([&]<int x>() FERRY_INLINE {
      Unroll<0, kSize>([&]<int y>() FERRY_INLINE { line[y] = Load(from + (y * kSize + x) * tile.stride, mask); });
      Tile::Output(line, 1, columns + x, kSize);
    });
    Unroll<0, kOutputs>([&]<int y>() FERRY_INLINE {
      Tile::Output(columns + y * kSize, 1, line, 1);
      Unroll<0, kOutputs>([&]<int x>() FERRY_INLINE {
        float* to = tile.y[y * kOutputs + x];
        if (!to) return;
        Floats sum = Add(line[x], bias);
        if (tile.residual) sum = Add(sum, Load(tile.residual[y * kOutputs + x] + there, mask));
        Store(limits.Apply(sum), to + there, mask);
      });
    });
  });
  if (IsLimit(tile.activation.kind)) return;
  for (int i = 0; i < kOutputs * kOutputs; ++i)
    if (tile.y[i]) ActivateSpan(tile.activation, tile.y[i] + tile.offset, tile.channels);
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
        for (int x = 0; x < kSize; ++x) StoreDoubles(line[x], to + (y * kSize + x) * stride + lane);
      }
    }
}

}  // namespace

const WinogradKernels kWinograd2 = {
    2, 16, kTileRows, Input<Tile2>, MultiplyRows<kTileRows>, Output<Tile2>, Filter<Tile2>};
const WinogradKernels kWinograd4 = {
    4, 36, kTileRows, Input<Tile4>, MultiplyRows<kTileRows>, Output<Tile4>, Filter<Tile4>};

}  // namespace ferry::FERRY_ISA

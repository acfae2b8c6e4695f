#include "kernels/int8_winograd.h"

#include "kernels/simd/int8_tile-inl.h"

namespace ferry::FERRY_ISA {
namespace {

#if HWY_TARGET == HWY_SCALAR
using ShortTag = hn::ScalableTag<int16_t>;
constexpr int kSumLanes = 1;
#else
using ShortTag = hn::CappedTag<int16_t, ferry::kInt8WinogradChannels>;
constexpr int kSumLanes = kTileColumns;
#endif
using Shorts = hn::Vec<ShortTag>;
constexpr int64_t kShortLanes = hn::MaxLanes(ShortTag());

// The transforms of one line. Those of the weights and of the sums are the usual ones times a constant for each
// position, so that all are whole and the constants of both multiply to the same number everywhere.
template <int kOutputs>
struct Line;

template <>
struct Line<2> {
  static constexpr int kSize = 4;
  static constexpr int kWeights[kSize][3] = {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}};
  // Sums come out 2 · 2 times too large.
  static HWY_INLINE Ints Divide(Ints sum) { return hn::ShiftRight<2>(sum); }
  static constexpr int64_t kLimit = int64_t{1} << 29;

  static HWY_INLINE void Input(const Shorts (&d)[kSize], Shorts (&to)[kSize]) {
    to[0] = hn::Sub(d[0], d[2]);
    to[1] = hn::Add(d[1], d[2]);
    to[2] = hn::Sub(d[2], d[1]);
    to[3] = hn::Sub(d[1], d[3]);
  }
  static HWY_INLINE void Output(const Ints (&m)[kSize], Ints (&to)[2]) {
    to[0] = hn::Add(hn::Add(m[0], m[1]), m[2]);
    to[1] = hn::Sub(hn::Sub(m[1], m[2]), m[3]);
  }
};

template <>
struct Line<4> {
  static constexpr int kSize = 6;
  static constexpr int kWeights[kSize][3] = {{1, 0, 0}, {-1, -1, -1}, {-1, 1, -1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 1}};
  // Sums come out 24 · 24 = 9 · 64 times too large; an odd number is divided by in the ring of 32-bit integers.
  static HWY_INLINE Ints Divide(Ints sum) {
    return hn::ShiftRight<6>(hn::Mul(sum, hn::Set(IntTag(), 954437177)));  // · 9 = 1 (mod 2³²)
  }
  static constexpr int64_t kLimit = int64_t{1} << 25;

  static HWY_INLINE void Input(const Shorts (&d)[kSize], Shorts (&to)[kSize]) {
    const Shorts twice_31 = hn::ShiftLeft<1>(hn::Sub(d[3], d[1])), last_42 = hn::Sub(d[4], d[2]);
    const Shorts high = hn::Sub(d[4], hn::ShiftLeft<2>(d[2])), low = hn::Sub(d[3], hn::ShiftLeft<2>(d[1]));
    auto five = [](Shorts v) { return hn::Add(hn::ShiftLeft<2>(v), v); };
    to[0] = hn::Add(hn::Sub(hn::ShiftLeft<2>(d[0]), five(d[2])), d[4]);
    to[1] = hn::Add(high, low);
    to[2] = hn::Sub(high, low);
    to[3] = hn::Add(last_42, twice_31);
    to[4] = hn::Sub(last_42, twice_31);
    to[5] = hn::Add(hn::Sub(hn::ShiftLeft<2>(d[1]), five(d[3])), d[5]);
  }
  // What each position's weights lack of 24: 6, 4, 4, 1, 1, 24.
  static HWY_INLINE void Output(const Ints (&m)[kSize], Ints (&to)[4]) {
    const Ints p = hn::ShiftLeft<2>(hn::Add(m[1], m[2])), q = hn::ShiftLeft<2>(hn::Sub(m[1], m[2]));
    const Ints r = hn::Add(m[3], m[4]), s = hn::Sub(m[3], m[4]);
    const Ints first = hn::Add(hn::ShiftLeft<2>(m[0]), hn::ShiftLeft<1>(m[0]));
    const Ints last = hn::Add(hn::ShiftLeft<4>(m[5]), hn::ShiftLeft<3>(m[5]));
    to[0] = hn::Add(hn::Add(first, p), r);
    to[1] = hn::Add(q, hn::ShiftLeft<1>(s));
    to[2] = hn::Add(p, hn::ShiftLeft<2>(r));
    to[3] = hn::Add(hn::Add(q, hn::ShiftLeft<3>(s)), last);
  }
};

HWY_INLINE Shorts WeighTaps(const int (&factors)[3], Shorts a, Shorts b, Shorts c) {
  auto times = [](Shorts v, int factor) { return hn::Mul(v, hn::Set(ShortTag(), static_cast<int16_t>(factor))); };
  return hn::Add(hn::Add(times(a, factors[0]), times(b, factors[1])), times(c, factors[2]));
}

template <int kOutputs>
void Filter(const int8_t* w, int64_t count, int16_t* to, int64_t point_stride) {
  constexpr int kSize = Line<kOutputs>::kSize;
  const auto& line = Line<kOutputs>::kWeights;
  const ShortTag d16;
  const hn::Rebind<int8_t, ShortTag> d8;
  for (int64_t n = 0; n < count; n += kShortLanes) {
    Shorts columns[3][kSize];
    HWY_UNROLL(3) for (int x = 0; x < 3; ++x) {
      auto tap = [&](int y) { return hn::PromoteTo(d16, hn::LoadU(d8, w + (3 * y + x) * count + n)); };
      HWY_UNROLL(6) for (int i = 0; i < kSize; ++i) columns[x][i] = WeighTaps(line[i], tap(0), tap(1), tap(2));
    }
    HWY_UNROLL(6) for (int i = 0; i < kSize; ++i) {
      HWY_UNROLL(6)
      for (int j = 0; j < kSize; ++j)
        hn::StoreU(WeighTaps(line[j], columns[0][i], columns[1][i], columns[2][i]), d16,
                   to + (i * kSize + j) * point_stride + n);
    }
  }
}

// `pixels` of a tile, each row `width` pointers after the one above.
template <int kOutputs>
HWY_INLINE void TransformTile(const uint8_t* const* pixels, int64_t width, int64_t channel, uint8_t flip, int16_t* to,
                              int64_t point_stride) {
  constexpr int kSize = Line<kOutputs>::kSize;
  const ShortTag d16;
  const hn::Rebind<uint8_t, ShortTag> d8;
  const auto flips = hn::Set(d8, flip);
  Shorts turned[kSize][kSize];  // [column][row]
  HWY_UNROLL(6) for (int x = 0; x < kSize; ++x) {
    Shorts column[kSize];
    HWY_UNROLL(6)
    for (int y = 0; y < kSize; ++y)
      column[y] = hn::PromoteTo(d16, hn::Xor(hn::LoadU(d8, pixels[y * width + x] + channel), flips));
    Line<kOutputs>::Input(column, turned[x]);
  }
  HWY_UNROLL(6) for (int y = 0; y < kSize; ++y) {
    Shorts row[kSize], made[kSize];
    HWY_UNROLL(6) for (int x = 0; x < kSize; ++x) row[x] = turned[x][y];
    Line<kOutputs>::Input(row, made);
    HWY_UNROLL(6) for (int x = 0; x < kSize; ++x) hn::StoreU(made[x], d16, to + (y * kSize + x) * point_stride);
  }
}

template <int kOutputs>
void Input(const ferry::Int8WinogradTiles& row) {
  const int64_t width = kOutputs * row.tiles + 2;
  for (int64_t tile = 0; tile < row.tiles; ++tile)
    for (int64_t channel = 0; channel < row.channels; channel += kShortLanes)
      TransformTile<kOutputs>(row.pixels + tile * kOutputs, width, channel, row.flip,
                              row.to + tile * row.channels + channel, row.point_stride);
}

// One vector of features of one tile; row y of the results goes to `to + y · line`, kSumLanes between neighbours.
template <int kOutputs>
HWY_INLINE void TransformSums(const int32_t* from, int64_t point_stride, int32_t* to, int64_t line) {
  constexpr int kSize = Line<kOutputs>::kSize;
  const IntTag d;
  Ints turned[kSize][kOutputs];  // [column][row]
  HWY_UNROLL(6) for (int x = 0; x < kSize; ++x) {
    Ints column[kSize];
    HWY_UNROLL(6)
    for (int y = 0; y < kSize; ++y) column[y] = hn::LoadU(d, from + (y * kSize + x) * point_stride);
    Line<kOutputs>::Output(column, turned[x]);
  }
  HWY_UNROLL(6) for (int y = 0; y < kOutputs; ++y) {
    Ints row[kSize], made[kOutputs];
    HWY_UNROLL(6) for (int x = 0; x < kSize; ++x) row[x] = turned[x][y];
    Line<kOutputs>::Output(row, made);
    HWY_UNROLL(6)
    for (int x = 0; x < kOutputs; ++x) hn::StoreU(Line<kOutputs>::Divide(made[x]), d, to + y * line + x * kSumLanes);
  }
}

// Results side by side, each with kSumLanes features.
void FinishLine(const ferry::Int8Output& out, int64_t row, int64_t rows, int64_t feature, const int32_t* sums) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < rows; ++i) FinishSums(IntTag(), hn::Load(IntTag(), sums + i), out, row + i, feature, 1);
#else
  FinishBlock(out, row, rows, feature, kSumLanes, sums, kSumLanes);
#endif
}

template <int kOutputs>
void Output(const ferry::Int8WinogradSums& row) {
  // Results of this many tiles wait for their row to be finished together.
  constexpr int64_t kTiles = 16, kLine = kTiles * kOutputs * kSumLanes;
  HWY_ALIGN int32_t made[kOutputs * kLine];
  for (int64_t feature = 0; feature < row.features; feature += kSumLanes)
    for (int64_t first = 0; first < row.tiles; first += kTiles) {
      const int64_t tiles = row.tiles - first < kTiles ? row.tiles - first : kTiles, column = first * kOutputs;
      for (int64_t tile = 0; tile < tiles; ++tile)
        for (int n = 0; n < kSumLanes; n += kIntStep)
          TransformSums<kOutputs>(row.from + (first + tile) * row.features + feature + n, row.point_stride,
                                  made + tile * kOutputs * kSumLanes + n, kLine);
      const int64_t left = row.columns - column, count = left < tiles * kOutputs ? left : tiles * kOutputs;
      for (int64_t y = 0; y < row.rows; ++y)
        FinishLine(row.out, y * row.line + column, count, feature, made + y * kLine);
    }
}

template <int kOutputs>
constexpr Int8WinogradKernels Make() {
  return {kOutputs, Line<kOutputs>::kLimit, Filter<kOutputs>, Input<kOutputs>, Output<kOutputs>};
}

}  // namespace

extern const Int8WinogradTable kInt8WinogradTable;
const Int8WinogradTable kInt8WinogradTable = {Make<2>(), Make<4>()};

}  // namespace ferry::FERRY_ISA

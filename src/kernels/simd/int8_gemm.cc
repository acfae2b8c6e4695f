#include "kernels/int8_gemm.h"

#include "kernels/simd/target.h"

namespace ferry::FERRY_ISA {
namespace {

using IntTag = hn::ScalableTag<int32_t>;

constexpr int kStep = static_cast<int>(kLanes);

#if HWY_TARGET == HWY_SCALAR

// Without vectors there are no pairs to multiply at once.
void Multiply(const int16_t* a, int64_t rows, int64_t depth, const int16_t* packed, int64_t columns, int32_t* c,
              int64_t c_stride) {
  const int64_t padded = ferry::PaddedDepth(depth), width = ferry::kInt8PanelWidth;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t n = 0; n < columns; ++n) {
      const int16_t* column = packed + n / width * padded * width + 2 * (n % width);
      uint32_t sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += static_cast<uint32_t>(a[i * padded + k] * column[k / 2 * (2 * width) + k % 2]);
      c[i * c_stride + n] = static_cast<int32_t>(sum);
    }
}

#else

using ShortTag = hn::ScalableTag<int16_t>;
using Ints = hn::Vec<IntTag>;
constexpr int kPanelVectors = static_cast<int>(ferry::kInt8PanelWidth / static_cast<int64_t>(kLanes));
constexpr int kTileVectors = kPanelVectors < 2 ? 1 : 2;
constexpr int kTileRows = kRegisters == 32 ? 12 : 6;

struct Tile {
  const int16_t* a;
  int64_t a_stride, pairs;
  const int16_t* b;
  int32_t* c;
  int64_t c_stride, columns;
};

template <int kRows>
HWY_NOINLINE void RunTile(const Tile& tile) {
  const IntTag d;
  const ShortTag d16;
  // Some instruction sets keep the sums of even and odd places apart until the end.
  Ints sums[kRows][kTileVectors], others[kRows][kTileVectors];
  HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(2) for (int v = 0; v < kTileVectors; ++v) sums[i][v] = others[i][v] = hn::Zero(d);
  }
  const int16_t* HWY_RESTRICT b = tile.b;
  for (int64_t pair = 0; pair < tile.pairs; ++pair, b += 2 * ferry::kInt8PanelWidth) {
    hn::Vec<ShortTag> columns[kTileVectors];
    HWY_UNROLL(2) for (int v = 0; v < kTileVectors; ++v) columns[v] = hn::LoadU(d16, b + 2 * v * kStep);
    HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
      int32_t both;
      __builtin_memcpy(&both, tile.a + i * tile.a_stride + 2 * pair, sizeof both);
      const hn::Vec<ShortTag> element = hn::BitCast(d16, hn::Set(d, both));
      HWY_UNROLL(2)
      for (int v = 0; v < kTileVectors; ++v)
        sums[i][v] = hn::ReorderWidenMulAccumulate(d, element, columns[v], sums[i][v], others[i][v]);
    }
  }
  HWY_ALIGN int32_t part[kLanes];
  HWY_UNROLL(2) for (int v = 0; v < kTileVectors; ++v) {
    int64_t count = tile.columns - v * kStep;
    HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
      Ints sum = hn::RearrangeToOddPlusEven(sums[i][v], others[i][v]);
      int32_t* to = tile.c + i * tile.c_stride + v * kStep;
      if (count >= kStep) {
        hn::StoreU(sum, d, to);
      } else {
        hn::Store(sum, d, part);
        for (int64_t n = 0; n < count; ++n) to[n] = part[n];
      }
    }
  }
}

void RunRows(int64_t rows, const Tile& tile) {
  switch (rows) {
    case 1: return RunTile<1>(tile);
    case 2: return RunTile<2>(tile);
    case 3: return RunTile<3>(tile);
    case 4: return RunTile<4>(tile);
    case 5: return RunTile<5>(tile);
    case 6: return RunTile<6>(tile);
    default: break;
  }
  if constexpr (kTileRows > 6) RunTile<kTileRows>(tile);
}

void Multiply(const int16_t* a, int64_t rows, int64_t depth, const int16_t* packed, int64_t columns, int32_t* c,
              int64_t c_stride) {
  const int64_t padded = ferry::PaddedDepth(depth);
  for (int64_t column = 0; column < columns; column += kTileVectors * kStep) {
    Tile tile{nullptr, padded, padded / 2, nullptr, nullptr, c_stride, columns - column};
    tile.b = packed + column / ferry::kInt8PanelWidth * padded * ferry::kInt8PanelWidth +
             2 * (column % ferry::kInt8PanelWidth);
    for (int64_t row = 0; row < rows;) {
      int64_t left = rows - row, count = left >= kTileRows ? kTileRows : left > 6 ? 6 : left;
      tile.a = a + row * padded;
      tile.c = c + row * c_stride + column;
      RunRows(count, tile);
      row += count;
    }
  }
}

#endif

void Range(const float* x, int64_t count, float* low, float* high) {
  const FloatTag d;
  Floats smallest = hn::Zero(d), largest = hn::Zero(d);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    Floats v = hn::LoadU(d, x + i);
    smallest = hn::IfThenElse(hn::Lt(v, smallest), v, smallest);
    largest = hn::IfThenElse(hn::Gt(v, largest), v, largest);
  }
  *low = hn::GetLane(hn::MinOfLanes(d, smallest));
  *high = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < count; ++i) {
    if (x[i] < *low) *low = x[i];
    if (x[i] > *high) *high = x[i];
  }
}

void Quantize(const float* x, int64_t count, float scale, float zero, uint8_t* y) {
  const FloatTag d;
  const IntTag di;
  const hn::Rebind<uint8_t, FloatTag> d8;
  const Floats divisor = hn::Set(d, scale), shift = hn::Set(d, zero), most = hn::Set(d, 255.0f), none = hn::Zero(d);
  auto one = [&](Floats v) {
    Floats level = hn::Add(hn::Round(hn::Div(v, divisor)), shift);
    level = hn::IfThenElse(hn::Gt(level, none), level, none);
    return hn::DemoteTo(d8, hn::ConvertTo(di, hn::IfThenElse(hn::Gt(level, most), most, level)));
  };
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) hn::StoreU(one(hn::LoadU(d, x + i)), d8, y + i);
  if (i == count) return;
  HWY_ALIGN float rest[kLanes] = {};
  HWY_ALIGN uint8_t levels[kLanes < 16 ? 16 : kLanes];
  for (int64_t n = i; n < count; ++n) rest[n - i] = x[n];
  hn::StoreU(one(hn::Load(d, rest)), d8, levels);
  for (int64_t n = i; n < count; ++n) y[n] = levels[n - i];
}

}  // namespace

extern const Int8Kernels kInt8Kernels;
const Int8Kernels kInt8Kernels = {Multiply, Range, Quantize};

}  // namespace ferry::FERRY_ISA

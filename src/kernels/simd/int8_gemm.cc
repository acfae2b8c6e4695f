#include "kernels/int8_gemm.h"

#include "kernels/simd/int8_convert.h"
#include "kernels/simd/int8_tile-inl.h"

namespace ferry::FERRY_ISA {
namespace {

// Two depths lie side by side: what a multiply-and-add of 16-bit integers takes.
constexpr int64_t kUnit = 2;

int64_t Padded(int64_t depth) { return (depth + kUnit - 1) / kUnit * kUnit; }

#if HWY_TARGET == HWY_SCALAR

constexpr int kTileRows = 1;

// Without vectors there are no pairs to multiply at once.
void Multiply(const ferry::Int8Product& product) {
  const int64_t padded = Padded(product.depth), width = ferry::kInt8PanelWidth;
  const auto* a = static_cast<const int16_t*>(product.a);
  for (int64_t i = 0; i < product.rows; ++i)
    for (int64_t n = 0; n < product.columns; ++n) {
      const int8_t* column = product.packed + n / width * padded * width + kUnit * (n % width);
      uint32_t sum = 0;
      for (int64_t k = 0; k < product.depth; ++k)
        sum += static_cast<uint32_t>(a[i * padded + k] * column[k / kUnit * (kUnit * width) + k % kUnit]);
      const IntTag d;
      FinishSums(d, hn::Set(d, static_cast<int32_t>(sum)), product.out, i, n, 1);
    }
}

#else

using ShortTag = hn::ScalableTag<int16_t>;
using ShortTile = Tile<int16_t>;
constexpr int kTileRows = kRegisters == 32 ? 12 : 6;
// A panel's part of this depth, widened, takes half of the first-level cache.
constexpr int64_t kChunkDepth = 512;

template <int kRows>
HWY_NOINLINE void RunTile(const ShortTile& tile) {
  const IntTag d;
  const ShortTag d16;
  // Some instruction sets keep the sums of even and odd places apart until the end.
  Ints sums[kRows][kTileVectors], others[kRows][kTileVectors];
  HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(2) for (int v = 0; v < kTileVectors; ++v) sums[i][v] = others[i][v] = hn::Zero(d);
  }
  const int16_t* HWY_RESTRICT a = tile.a;
  const auto* HWY_RESTRICT b = static_cast<const int16_t*>(tile.b);
  const int64_t a_stride = tile.a_stride;
  for (int64_t depth = 0; depth < tile.depths; depth += kUnit, a += kUnit, b += kUnit * ferry::kInt8PanelWidth) {
    hn::Vec<ShortTag> columns[kTileVectors];
    HWY_UNROLL(2) for (int v = 0; v < kTileVectors; ++v) columns[v] = hn::Load(d16, b + 2 * v * kIntStep);
    HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
      int32_t both;
      __builtin_memcpy(&both, a + i * a_stride, sizeof both);
      const hn::Vec<ShortTag> element = hn::BitCast(d16, hn::Set(d, both));
      HWY_UNROLL(2)
      for (int v = 0; v < kTileVectors; ++v)
        sums[i][v] = hn::ReorderWidenMulAccumulate(d, element, columns[v], sums[i][v], others[i][v]);
    }
  }
  HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(2) for (int v = 0; v < kTileVectors; ++v) {
      int32_t* kept = tile.sums + i * ferry::kInt8PanelWidth + v * kIntStep;
      Ints sum = hn::RearrangeToOddPlusEven(sums[i][v], others[i][v]);
      hn::Store(sum, d, kept);
    }
  }
}

void RunRows(int64_t rows, const ShortTile& tile) {
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

void Widen(const int8_t* from, int64_t count, int16_t* to) {
  const ShortTag d16;
  const hn::Rebind<int8_t, ShortTag> d8;
  constexpr int64_t kAll = hn::MaxLanes(ShortTag());
  for (int64_t i = 0; i < count; i += kAll) hn::Store(hn::PromoteTo(d16, hn::LoadU(d8, from + i)), d16, to + i);
}

void Multiply(const ferry::Int8Product& product) {
  const int64_t padded = Padded(product.depth);
  ForPanels(product, [&](int64_t row, int64_t rows, int64_t column) {
    HWY_ALIGN int16_t wide[kChunkDepth * ferry::kInt8PanelWidth];
    auto widen = [&](const int8_t* panel, int64_t depths) {
      Widen(panel, depths * ferry::kInt8PanelWidth, wide);
      return wide;
    };
    MultiplyPanel<int16_t, kTileRows, kUnit * sizeof(int16_t)>(product, padded, kChunkDepth, row, rows, column, widen,
                                                               RunRows);
  });
}

#endif

void Prepare(const uint8_t* from, uint8_t flip, int64_t count, void* to) {
  const hn::ScalableTag<int16_t> d16;
  const hn::Rebind<uint8_t, hn::ScalableTag<int16_t>> d8;
  constexpr int64_t kAll = hn::MaxLanes(hn::ScalableTag<int16_t>());
  const auto flips = hn::Set(d8, flip);
  auto* wide = static_cast<int16_t*>(to);
  auto one = [&](int64_t i) { hn::StoreU(hn::PromoteTo(d16, hn::Xor(hn::LoadU(d8, from + i), flips)), d16, wide + i); };
  int64_t i = 0;
  for (; i + kAll <= count; i += kAll) one(i);
  if (i < count && count >= kAll) {
    one(count - kAll);  // some are made twice
    i = count;
  }
  for (; i < count; ++i) wide[i] = static_cast<int16_t>(from[i] ^ flip);
}

void Fill(uint8_t value, int64_t count, void* to) {
  auto* wide = static_cast<int16_t*>(to);
  for (int64_t i = 0; i < count; ++i) wide[i] = value;
}

}  // namespace

extern const Int8Kernels kInt8Kernels;
const Int8Kernels kInt8Kernels = {kUnit,    sizeof(int16_t), kTileRows,    Prepare,       Fill,
                                  Multiply, Int8Range,       Int8Quantize, Int8Dequantize};

}  // namespace ferry::FERRY_ISA

#include "kernels/int8_gemm.h"

#include "kernels/simd/int8_bytes.h"
#include "kernels/simd/int8_convert.h"
#include "kernels/simd/int8_tile-inl.h"

namespace ferry::FERRY_ISA {
namespace {

// Two depths lie side by side: what a multiply-and-add of 16-bit integers takes. Where it takes an instruction to
// multiply and another to add, tiles multiply crosswise, two products by each multiplication:
//   (a0 + b2)(a2 + b0) + (a1 + b3)(a3 + b1) = a0·b0 + a1·b1 + a2·b2 + a3·b3 + (a0·a2 + a1·a3) + (b0·b2 + b1·b3)
// That is as many instructions, but more of them are plain additions, which every port of the processor can do. What is
// too much is the same for a whole row of A or column of B and taken off once.
constexpr bool kCrosswise = HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && kLanes <= 8;
constexpr int64_t kPair = 2, kUnit = kCrosswise ? 4 : kPair;

int64_t Padded(int64_t depth) { return (depth + kUnit - 1) / kUnit * kUnit; }

#if HWY_TARGET == HWY_SCALAR

constexpr int kTileRows = 1;
constexpr auto kMultiplyShorts = nullptr;

// Without vectors there are no pairs to multiply at once.
void Multiply(const ferry::Int8Product& product) {
  const int64_t padded = Padded(product.depth), width = ferry::kInt8PanelWidth;
  const auto* a = static_cast<const int16_t*>(product.a);
  for (int64_t i = 0; i < product.rows; ++i)
    for (int64_t n = 0; n < product.columns; ++n) {
      const auto* column =
          static_cast<const int8_t*>(product.packed) + n / width * padded * width + kPair * (n % width);
      uint32_t sum = 0;
      for (int64_t k = 0; k < product.depth; ++k)
        sum += static_cast<uint32_t>(a[i * padded + k] * column[k / kPair * (kPair * width) + k % kPair]);
      const IntTag d;
      FinishSums(d, hn::Set(d, static_cast<int32_t>(sum)), product.out, i, n, 1);
    }
}

#else

using ShortTag = hn::ScalableTag<int16_t>;
using Shorts = hn::Vec<ShortTag>;
using ShortTile = Tile<int16_t>;
constexpr int64_t kWidth = ferry::kInt8PanelWidth;
constexpr int kPlainRows = kRegisters == 32 ? 12 : 6, kCrossRows = 4;
constexpr int kTileRows = kCrosswise ? kCrossRows : kPlainRows;
// A panel's part of this depth, widened, takes half of the first-level cache.
constexpr int64_t kChunkDepth = 512;
// Fewer columns are not worth the terms of the rows, and smaller depths not the smaller tile. Shorts come in many small
// products, with terms of their own.
constexpr int64_t kCrossColumns = 64, kCrossDepth = 96, kCrossShortsDepth = 160;

HWY_INLINE Shorts Spread(const int16_t* pair) {
  int32_t both;
  __builtin_memcpy(&both, pair, sizeof both);
  return hn::BitCast(ShortTag(), hn::Set(IntTag(), both));
}

// The products of one row and a tile's columns over kPairs pairs of depths; two pairs are taken crosswise.
template <int kPairs>
HWY_INLINE void AddProducts(const int16_t* a, const Shorts (&columns)[kPairs][kTileVectors], Ints (&sums)[kTileVectors],
                            Ints (&others)[kTileVectors]) {
  const IntTag d;
  const Shorts first = Spread(a);
  if constexpr (kPairs == 2) {
    const Shorts second = Spread(a + kPair);
    HWY_UNROLL(2)
    for (int v = 0; v < kTileVectors; ++v)
      sums[v] = hn::ReorderWidenMulAccumulate(d, hn::Add(first, columns[1][v]), hn::Add(second, columns[0][v]), sums[v],
                                              others[v]);
  } else {
    HWY_UNROLL(2)
    for (int v = 0; v < kTileVectors; ++v)
      sums[v] = hn::ReorderWidenMulAccumulate(d, first, columns[0][v], sums[v], others[v]);
  }
}

// Whether sums have their places from the beginning; else they get them in the end.
constexpr bool kInOrder = HWY_ARCH_X86;

template <int kRows, bool kCross>
HWY_NOINLINE void RunTiles(ShortTile tile, int64_t tiles) {
  const IntTag d;
  const ShortTag d16;
  constexpr int kPairs = kCross ? 2 : 1;
  for (; tiles > 0; --tiles, tile.a += kRows * tile.a_stride, tile.sums += kRows * tile.sums_stride) {
    // Some instruction sets keep the sums of even and odd places apart until the end.
    Ints sums[kRows][kTileVectors], others[kRows][kTileVectors];
    HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
      HWY_UNROLL(2) for (int v = 0; v < kTileVectors; ++v) {
        others[i][v] = sums[i][v] = hn::Zero(d);
        if (kInOrder && tile.adds) sums[i][v] = hn::LoadU(d, tile.sums + i * tile.sums_stride + v * kIntStep);
        if constexpr (kCross) {
          if (!tile.adds) sums[i][v] = hn::Set(d, tile.row_terms[i]);
          sums[i][v] = hn::Sub(sums[i][v], hn::LoadU(d, tile.column_terms + v * kIntStep));
        }
      }
    }
    if constexpr (kCross) tile.row_terms += kRows;
    const int16_t* HWY_RESTRICT a = tile.a;
    const auto* HWY_RESTRICT b = static_cast<const int16_t*>(tile.b);
    const int64_t a_stride = tile.a_stride;
    constexpr int64_t kStep = kPairs * kPair;
    for (int64_t depth = 0; depth < tile.depths; depth += kStep, a += kStep, b += kStep * kWidth) {
      Shorts columns[kPairs][kTileVectors];
      HWY_UNROLL(2) for (int pair = 0; pair < kPairs; ++pair) {
        HWY_UNROLL(2)
        for (int v = 0; v < kTileVectors; ++v)
          columns[pair][v] = hn::LoadU(d16, b + kPair * (pair * kWidth + v * kIntStep));
      }
      HWY_UNROLL(12)
      for (int i = 0; i < kRows; ++i) AddProducts<kPairs>(a + i * a_stride, columns, sums[i], others[i]);
    }
    HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
      HWY_UNROLL(2) for (int v = 0; v < kTileVectors; ++v) {
        int32_t* const to = tile.sums + i * tile.sums_stride + v * kIntStep;
        Ints sum = hn::RearrangeToOddPlusEven(sums[i][v], others[i][v]);
        if (!kInOrder && tile.adds) sum = hn::Add(sum, hn::LoadU(d, to));
        hn::StoreU(sum, d, to);
      }
    }
  }
}

void RunPlain(int64_t rows, const ShortTile& tile) {
  ForTiles<kPlainRows>(rows, tile, [](int64_t most, const ShortTile& part, int64_t tiles) {
    switch (most) {
      case 1: return RunTiles<1, false>(part, tiles);
      case 2: return RunTiles<2, false>(part, tiles);
      case 3: return RunTiles<3, false>(part, tiles);
      case 4: return RunTiles<4, false>(part, tiles);
      case 5: return RunTiles<5, false>(part, tiles);
      case 6: return RunTiles<6, false>(part, tiles);
      default: break;
    }
    if constexpr (kPlainRows > 6) RunTiles<kPlainRows, false>(part, tiles);
  });
}

void RunRows(int64_t rows, const ShortTile& tile) {
  if constexpr (kCrosswise) {
    if (tile.row_terms) {
      ForTiles<kCrossRows>(rows, tile, [](int64_t most, const ShortTile& part, int64_t tiles) {
        switch (most) {
          case 1: return RunTiles<1, true>(part, tiles);
          case 2: return RunTiles<2, true>(part, tiles);
          case 3: return RunTiles<3, true>(part, tiles);
          default: return RunTiles<kCrossRows, true>(part, tiles);
        }
      });
      return;
    }
  }
  RunPlain(rows, tile);
}

// -(a0·a2 + a1·a3) over all units of each row.
void TakeRowTerms(const int16_t* a, int64_t padded, int64_t rows, int32_t* terms) {
  const IntTag d;
  const ShortTag d16;
  const hn::Repartition<uint64_t, ShortTag> d64;
  constexpr int64_t kAll = hn::MaxLanes(ShortTag());
  for (int64_t i = 0; i < rows; ++i, a += padded) {
    Ints sum = hn::Zero(d), other = sum;
    int64_t k = 0;
    for (; k + kAll <= padded; k += kAll) {
      const Shorts unit = hn::LoadU(d16, a + k);
      const Shorts second = hn::BitCast(d16, hn::ShiftRight<32>(hn::BitCast(d64, unit)));
      sum = hn::ReorderWidenMulAccumulate(d, unit, second, sum, other);
    }
    auto term = static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(d, sum)));
    for (; k < padded; k += kUnit) term += static_cast<uint32_t>(a[k] * a[k + 2] + a[k + 1] * a[k + 3]);
    terms[i] = static_cast<int32_t>(0 - term);
  }
}

// b0·b2 + b1·b3 over all units of each column of a panel.
void TakeColumnTerms(const int16_t* panel, int64_t depths, int32_t* terms) {
  const IntTag d;
  const ShortTag d16;
  for (int n = 0; n < kWidth; n += kIntStep) {
    Ints sum = hn::Zero(d), other = sum;
    const int16_t* unit = panel + 2 * n;
    for (int64_t k = 0; k < depths; k += kUnit, unit += kUnit * kWidth)
      sum = hn::ReorderWidenMulAccumulate(d, hn::LoadU(d16, unit), hn::LoadU(d16, unit + 2 * kWidth), sum, other);
    hn::Store(sum, d, terms + n);
  }
}

#if HWY_TARGET == HWY_AVX2
// Units of four depths become pairs of the even and of the odd ones, as WidenRows (int8_bytes.cc) has them.
void Widen(const int8_t* from, int64_t count, int16_t* to) {
  const ShortTag d16;
  const hn::ScalableTag<int8_t> d8;
  constexpr int64_t kHalf = 32;
  for (int64_t i = 0; i < count; i += 2 * kHalf) {
    for (int64_t v = 0; v < 2; ++v) {
      const Shorts bytes = hn::BitCast(d16, hn::LoadU(d8, from + i + v * kHalf));
      hn::Store(hn::ShiftRight<8>(hn::ShiftLeft<8>(bytes)), d16, to + i + v * kHalf / 2);
      hn::Store(hn::ShiftRight<8>(bytes), d16, to + i + kHalf + v * kHalf / 2);
    }
  }
}
#else
void Widen(const int8_t* from, int64_t count, int16_t* to) {
  const ShortTag d16;
  const hn::Rebind<int8_t, ShortTag> d8;
  constexpr int64_t kAll = hn::MaxLanes(ShortTag());
  for (int64_t i = 0; i < count; i += kAll) hn::Store(hn::PromoteTo(d16, hn::LoadU(d8, from + i)), d16, to + i);
}
#endif

// `wide(part, depths)` gives a part of a panel as 16-bit integers.
template <class Weight, class Wide>
HWY_INLINE void MultiplyRows(const ferry::Int8Product& product, bool crosswise, const Wide& wide) {
  HWY_ALIGN int32_t row_terms[kBlockRows], column_terms[kWidth];
  ShortTile common{};
  common.a_stride = Padded(product.depth);
  if (crosswise) common.row_terms = row_terms, common.column_terms = column_terms;
  auto ready = [&](const Weight* part, int64_t depths, const ShortTile&) {
    const int16_t* panel = wide(part, depths);
    if (crosswise) TakeColumnTerms(panel, depths, column_terms);
    return panel;
  };
  ForRowBlocks(product, [&](int64_t row, int64_t rows) {
    if (crosswise)
      TakeRowTerms(static_cast<const int16_t*>(product.a) + row * common.a_stride, common.a_stride, rows, row_terms);
    for (int64_t column = 0; column < product.columns; column += kWidth)
      MultiplyPanel<Weight, 2 * sizeof(int16_t)>(product, kChunkDepth, row, rows, column, common, ready, RunRows);
  });
}

bool IsCrosswise(const ferry::Int8Product& product, int64_t least_depth) {
  return kCrosswise && product.columns >= kCrossColumns && product.depth >= least_depth && product.rows >= kCrossRows;
}

void Multiply(const ferry::Int8Product& product) {
  HWY_ALIGN int16_t widened[kChunkDepth * kWidth];
  MultiplyRows<int8_t>(product, IsCrosswise(product, kCrossDepth), [&](const int8_t* part, int64_t depths) {
    Widen(part, depths * kWidth, widened);
    return widened;
  });
}

void MultiplyShorts(const ferry::Int8Product& product) {
  MultiplyRows<int16_t>(product, IsCrosswise(product, kCrossShortsDepth),
                        [](const int16_t* part, int64_t) { return part; });
}
constexpr auto kMultiplyShorts = MultiplyShorts;

#endif

#if HWY_TARGET != HWY_AVX2
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
#endif

}  // namespace

extern const Int8Kernels kInt8Kernels;
#if HWY_TARGET == HWY_AVX2
void MultiplyWidened(const ferry::Int8Product& product) { Multiply(product); }
const Int8Kernels kInt8Kernels = {kBytesUnit,       kBytesUnit,     1,
                                  kBytesScratch,    kBytesTileRows, true,
                                  Int8PrepareBytes, Int8FillBytes,  MultiplyBytes,
                                  kMultiplyShorts,  nullptr,        Int8Range,
                                  Int8Quantize,     Int8Dequantize};
#else
const Int8Kernels kInt8Kernels = {kPair, kUnit,    sizeof(int16_t), 0,       kTileRows, false,        Prepare,
                                  Fill,  Multiply, kMultiplyShorts, nullptr, Int8Range, Int8Quantize, Int8Dequantize};
#endif

}  // namespace ferry::FERRY_ISA

// Products with bfloat16 weights on any instruction set: weights are widened where they are loaded. Processors with
// AVX-512 but without AVX512_BF16 take the AVX2 form, which gives the same bits: one of their own would be a large part
// of the binary.
#include "kernels/simd/bf16_tile-inl.h"

#if HWY_TARGET > HWY_AVX3

namespace ferry::FERRY_ISA {
namespace {

using BitsTag = hn::RebindToUnsigned<FloatTag>;
using Bits = hn::Vec<BitsTag>;
constexpr uint32_t kUpperHalf = 0xFFFF0000u;
using FloatTile = Bf16Tile<float>;

// The nearest bfloat16, halves to even, as a float's upper half; NaN stays NaN.
HWY_INLINE Bits Rounded(Floats x) {
  const BitsTag d;
  const Bits bits = hn::BitCast(d, x), upper = hn::Set(d, kUpperHalf);
  const Bits odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const Bits rounded = hn::Add(bits, hn::Add(hn::Set(d, 0x7FFF), odd));
  const Bits quiet = hn::Or(bits, hn::Set(d, 0x00400000));
  const auto is_nan = hn::RebindMask(d, hn::IsNaN(x));
  return hn::And(hn::IfThenElse(is_nan, quiet, rounded), upper);
}

void RoundRow(const float* from, int64_t count, float* to) {
  const FloatTag d;
  int64_t k = 0;
  for (; k + kBf16Step <= count; k += kBf16Step) hn::StoreU(hn::BitCast(d, Rounded(hn::LoadU(d, from + k))), d, to + k);
  if (k == count) return;
  const FloatMask mask = hn::FirstN(d, static_cast<size_t>(count - k));
  StoreWhere(hn::BitCast(d, Rounded(LoadWhere(mask, d, from + k))), mask, d, to + k);
}

void Narrow(const float* panel, int64_t depth, uint16_t* to) {
  const FloatTag d;
  const BitsTag bits;
  for (int64_t k = 0; k < depth; k += 2, to += 2 * ferry::kPanelWidth)
    for (int64_t n = 0; n < ferry::kPanelWidth; n += kBf16Step) {
      const float* even = panel + k * ferry::kPanelWidth + n;
      const Bits low = hn::ShiftRight<16>(Rounded(hn::LoadU(d, even)));
      const Bits high = k + 1 < depth ? Rounded(hn::LoadU(d, even + ferry::kPanelWidth)) : hn::Zero(bits);
      hn::StoreU(hn::Or(low, high), bits, reinterpret_cast<uint32_t*>(to + 2 * n));
    }
}

template <int kRows, int kVectors>
HWY_INLINE void AddProducts(const float* a, int64_t a_stride, const Floats (&columns)[kVectors],
                            Floats (&sums)[kRows][kVectors]) {
  Unroll<0, kRows>([&]<int i>() FERRY_INLINE {
    const Floats element = hn::Set(FloatTag(), a[i * a_stride]);
    Unroll<0, kVectors>([&]<int v>() FERRY_INLINE { sums[i][v] = hn::MulAdd(element, columns[v], sums[i][v]); });
  });
}

// The second of a pair goes first, as in the instruction that does both.
template <int kRows, int kVectors>
HWY_NOINLINE void RunTile(const FloatTile& tile) {
  const FloatTag d;
  const BitsTag bits;
  const Bits upper = hn::Set(bits, kUpperHalf);
  Floats sums[kRows][kVectors];
  BeginSums<kRows, kVectors>(tile, sums);
  const float* a = tile.a;
  const uint16_t* b = tile.b;
  const int64_t a_stride = tile.a_stride;
  auto load = [&](int v)
                  FERRY_INLINE { return hn::LoadU(bits, reinterpret_cast<const uint32_t*>(b + tile.Offset(v))); };
  for (int64_t pair = 0; pair < tile.pairs; ++pair, a += 2, b += 2 * ferry::kPanelWidth) {
    Floats columns[kVectors];
    Unroll<0, kVectors>([&]<int v>() FERRY_INLINE { columns[v] = hn::BitCast(d, hn::And(load(v), upper)); });
    AddProducts<kRows, kVectors>(a + 1, a_stride, columns, sums);
    // Has the second half read again: registers that hold both are missing elsewhere.
    asm volatile("" : "+r"(b));
    Unroll<0, kVectors>([&]<int v>() FERRY_INLINE { columns[v] = hn::BitCast(d, hn::ShiftLeft<16>(load(v))); });
    AddProducts<kRows, kVectors>(a, a_stride, columns, sums);
  }
  KeepSums<kRows, kVectors>(tile, sums);
}

// The columns of a tile as floats, for many rows to read: of each pair of depths the second first.
void Widen(const FloatTile& tile, int64_t vectors, float* to) {
  const FloatTag d;
  const BitsTag bits;
  const Bits upper = hn::Set(bits, kUpperHalf);
  const uint16_t* b = tile.b;
  for (int64_t pair = 0; pair < tile.pairs; ++pair, b += 2 * ferry::kPanelWidth, to += 2 * vectors * kBf16Step)
    for (int64_t v = 0; v < vectors; ++v) {
      const Bits both = hn::LoadU(bits, reinterpret_cast<const uint32_t*>(b + tile.Offset(v)));
      hn::StoreU(hn::BitCast(d, hn::And(both, upper)), d, to + v * kBf16Step);
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(both)), d, to + (vectors + v) * kBf16Step);
    }
}

template <int kRows, int kVectors>
HWY_NOINLINE void RunWideTile(const FloatTile& tile) {
  Floats sums[kRows][kVectors];
  BeginSums<kRows, kVectors>(tile, sums);
  const float *a = tile.a, *b = tile.wide;
  const int64_t a_stride = tile.a_stride;
  auto add = [&](const float* from) FERRY_INLINE {
    Floats columns[kVectors];
    Unroll<0, kVectors>([&]<int v>() FERRY_INLINE { columns[v] = hn::LoadU(FloatTag(), b + v * kBf16Step); });
    AddProducts<kRows, kVectors>(from, a_stride, columns, sums);
    b += kVectors * kBf16Step;
  };
  for (int64_t pair = 0; pair < tile.pairs; ++pair, a += 2) {
    add(a + 1);
    add(a);
  }
  KeepSums<kRows, kVectors>(tile, sums);
}

void Gathered(const GatheredGemm& gemm, const uint16_t* packed, void* scratch) {
  MultiplyGathered<float, true>(gemm, packed, scratch, RoundRow, Widen,
                                []<int kRows, int kVectors>(const FloatTile& tile) {
                                  if constexpr (kVectors <= 2) {
                                    if (tile.wide) return RunWideTile<kRows, kVectors>(tile);
                                  }
                                  RunTile<kRows, kVectors>(tile);
                                });
}

void Plain(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const uint16_t* packed, int64_t columns,
           float* c, int64_t c_stride, const GemmEpilogue& epilogue, void* scratch) {
  MultiplyPlain(a, a_stride, rows, depth, columns, c, c_stride, epilogue,
                [&](const GatheredGemm& gemm) { Gathered(gemm, packed, scratch); });
}

}  // namespace

extern const Bf16Kernels kBf16Kernels;
#define FERRY_TEXT_OF(x) #x
#define FERRY_TEXT(x) FERRY_TEXT_OF(x)
const Bf16Kernels kBf16Kernels = {FERRY_TEXT(FERRY_ISA), kBf16TileRows, Gathered, Plain, Narrow};

}  // namespace ferry::FERRY_ISA

#endif

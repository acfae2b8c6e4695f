// Products with bfloat16 weights by the instruction that multiplies and adds two of them at once (AVX512_BF16). Highway
// has no name for it, so it is written out; the rest of the instruction set's sources stay without it.
#include "kernels/simd/bf16_tile-inl.h"

#if HWY_TARGET <= HWY_AVX3 && defined(__x86_64__)

#include <immintrin.h>

namespace ferry::avx2 {
extern const Bf16Kernels kBf16Kernels;
}

namespace ferry::FERRY_ISA {
namespace {

#define FERRY_BF16 __attribute__((target("avx512bf16")))

using PairTile = Bf16Tile<uint16_t>;

FERRY_BF16 void RoundRow(const float* from, int64_t count, uint16_t* to) {
  int64_t k = 0;
  for (; k + kBf16Step <= count; k += kBf16Step)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + k)));
  if (k == count) return;
  const auto mask = static_cast<__mmask16>((1u << (count - k)) - 1);
  _mm256_mask_storeu_epi16(to + k, mask, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + k)));
}

template <int kRows, int kVectors>
HWY_NOINLINE FERRY_BF16 void RunTile(const PairTile& tile) {
  Floats sums[kRows][kVectors];
  BeginSums<kRows, kVectors>(tile, sums);
  const uint16_t* HWY_RESTRICT a = tile.a;
  const int64_t a_stride = tile.a_stride, panel_stride = tile.panel_stride;
  const uint16_t* HWY_RESTRICT b = tile.b;
  for (int64_t pair = 0; pair < tile.pairs; ++pair, a += 2, b += 2 * ferry::kPanelWidth) {
    __m512i columns[kVectors];
    HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(b + v * panel_stride);
    HWY_UNROLL(12) for (int i = 0; i < kRows; ++i) {
      int32_t both;
      __builtin_memcpy(&both, a + i * a_stride, sizeof both);
      const __m512i element = _mm512_set1_epi32(both);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v)
        sums[i][v].raw = _mm512_dpbf16_ps(sums[i][v].raw, (__m512bh)element, (__m512bh)columns[v]);
    }
  }
  KeepSums<kRows, kVectors>(tile, sums);
}

void Gathered(const GatheredGemm& gemm, const uint16_t* packed, void* scratch) {
  auto as_it_is = [](const PairTile&, int64_t, float*) {};
  MultiplyGathered<uint16_t, false>(
      gemm, packed, scratch, RoundRow, as_it_is,
      []<int kRows, int kVectors>(const PairTile& tile) { RunTile<kRows, kVectors>(tile); });
}

void Plain(const float* a, int64_t a_stride, int64_t rows, int64_t depth, const uint16_t* packed, int64_t columns,
           float* c, int64_t c_stride, const GemmEpilogue& epilogue, void* scratch) {
  MultiplyPlain(a, a_stride, rows, depth, columns, c, c_stride, epilogue,
                [&](const GatheredGemm& gemm) { Gathered(gemm, packed, scratch); });
}

void Narrow(const float* panel, int64_t depth, uint16_t* to) { ferry::avx2::kBf16Kernels.narrow(panel, depth, to); }

}  // namespace

extern const Bf16Kernels kBf16NativeKernels;
const Bf16Kernels kBf16NativeKernels = {"avx512bf16", kBf16TileRows, Gathered, Plain, Narrow};

}  // namespace ferry::FERRY_ISA

#endif

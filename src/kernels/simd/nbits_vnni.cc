// Weights of 4 or 8 bits times rows of bytes, with the instructions that multiply and add four of them at once
// (AVX-512 VNNI). Of each eight depths of 4 bits the even ones come first, then the odd ones: that is how they come out
// of a word.
#include "kernels/nbits_gemm.h"
#include "kernels/simd/target.h"

#if HWY_TARGET <= HWY_AVX3 && defined(__x86_64__)

#include <immintrin.h>

namespace ferry::FERRY_ISA {
namespace {

#define FERRY_VNNI __attribute__((target("avx512vnni")))

constexpr int64_t kPanel = ferry::kNbitsPanel;
constexpr int kTilePanels = 2;

void Quantize(const ferry::NbitsMatrix& m, const float* a, int8_t* numbers, float* scales, int32_t* sums) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m128i order = m.bits == 4 ? _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)
                                    : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  auto load = [&](int64_t k) __attribute__((always_inline)) {
    const int64_t left = m.depth - k;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : left > 0 ? (1 << left) - 1 : 0);
    return _mm512_maskz_loadu_ps(mask, a + k);
  };
  for (int64_t at = 0; at < m.blocks; ++at) {
    // As integers, NaN is larger than every number.
    __m512i largest = _mm512_setzero_si512();
    const int64_t begin = at * m.block, end = begin + m.block;
    for (int64_t k = begin; k < end; k += 16)
      largest = _mm512_max_epi32(largest, _mm512_and_si512(_mm512_castps_si512(load(k)), magnitude));
    const int32_t bits = _mm512_reduce_max_epi32(largest);
    float top;
    __builtin_memcpy(&top, &bits, sizeof top);
    const __m512 inverse = _mm512_set1_ps(top > 0 ? 127.0f / top : 0.0f);
    __m512i sum = _mm512_setzero_si512();
    for (int64_t k = begin; k < end; k += 16) {
      const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(load(k), inverse));
      sum = _mm512_add_epi32(sum, whole);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(numbers + k), _mm_shuffle_epi8(_mm512_cvtsepi32_epi8(whole), order));
    }
    scales[at] = top / 127.0f;
    sums[at] = _mm512_reduce_add_epi32(sum);
  }
}

FERRY_VNNI HWY_INLINE __m512i Spread(const int8_t* four) {
  int32_t value;
  __builtin_memcpy(&value, four, sizeof value);
  return _mm512_set1_epi32(value);
}

HWY_INLINE __m512 Finished(const ferry::NbitsMatrix& m, int64_t block, __m512i products, float scale, int32_t sum,
                           __m512 so_far) {
  __m512 value = _mm512_cvtepi32_ps(products);
  if (m.zeros) {
    const __m128i zeros = _mm_loadu_si128(reinterpret_cast<const __m128i*>(m.zeros + block * kPanel));
    value = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(zeros)), _mm512_set1_ps(static_cast<float>(sum)),
                             value);
  }
  return _mm512_fmadd_ps(_mm512_mul_ps(value, _mm512_set1_ps(scale)), _mm512_loadu_ps(m.scales + block * kPanel),
                         so_far);
}

HWY_INLINE __mmask16 MaskOf(int64_t columns) {
  return static_cast<__mmask16>(columns >= kPanel ? 0xffff : columns > 0 ? (1 << columns) - 1 : 0);
}

HWY_INLINE __m512 Begin(const ferry::NbitsPart& part, int64_t column) {
  return part.bias ? _mm512_maskz_loadu_ps(MaskOf(part.columns - column), part.bias + column) : _mm512_setzero_ps();
}

// What the middle of the range has added to the sums of a block. It wraps where the row has a NaN, whose scale is NaN.
HWY_INLINE int32_t TakenOff(int32_t middle, int32_t sum) {
  return static_cast<int32_t>(0u - static_cast<uint32_t>(middle) * static_cast<uint32_t>(sum));
}

// One row straight from the words.
template <int kBits>
FERRY_VNNI HWY_NOINLINE void MultiplyRow(const ferry::NbitsMatrix& m, const ferry::NbitsPart& part,
                                         const ferry::NbitsRows& rows, float* y) {
  constexpr int32_t kMiddle = 1 << (kBits - 1);
  constexpr int64_t kAhead = 1024;  // words: what will be read soon
  const __m512i nibble = _mm512_set1_epi8(15);
  const int64_t words_of_block = m.block * kBits / 32 * kPanel;
  const uint32_t* words = m.words + part.first * m.panel_words();
  for (int64_t p = 0; p < part.panels; ++p) {
    __m512 result = Begin(part, p * kPanel);
    const int8_t* a = rows.numbers;
    for (int64_t at = 0; at < m.blocks; ++at) {
      __m512i s0 = _mm512_set1_epi32(TakenOff(kMiddle, rows.sums[at])), s1 = _mm512_setzero_si512(), s2 = s1, s3 = s1;
      for (const uint32_t* end = words + words_of_block; words < end;) {
        __builtin_prefetch(words + kAhead);
        __builtin_prefetch(words + kAhead + kPanel);
        const __m512i first = _mm512_loadu_si512(words), second = _mm512_loadu_si512(words + kPanel);
        if constexpr (kBits == 4) {
          s0 = _mm512_dpbusd_epi32(s0, _mm512_and_si512(first, nibble), Spread(a));
          s1 = _mm512_dpbusd_epi32(s1, _mm512_and_si512(_mm512_srli_epi16(first, 4), nibble), Spread(a + 4));
          s2 = _mm512_dpbusd_epi32(s2, _mm512_and_si512(second, nibble), Spread(a + 8));
          s3 = _mm512_dpbusd_epi32(s3, _mm512_and_si512(_mm512_srli_epi16(second, 4), nibble), Spread(a + 12));
          words += 2 * kPanel;
        } else {
          s0 = _mm512_dpbusd_epi32(s0, first, Spread(a));
          s1 = _mm512_dpbusd_epi32(s1, second, Spread(a + 4));
          s2 = _mm512_dpbusd_epi32(s2, _mm512_loadu_si512(words + 2 * kPanel), Spread(a + 8));
          s3 = _mm512_dpbusd_epi32(s3, _mm512_loadu_si512(words + 3 * kPanel), Spread(a + 12));
          words += 4 * kPanel;
        }
        a += 16;
      }
      const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(s0, s1), _mm512_add_epi32(s2, s3));
      result = Finished(m, (part.first + p) * m.blocks + at, sum, rows.scales[at], rows.sums[at], result);
    }
    _mm512_mask_storeu_ps(y + p * kPanel, MaskOf(part.columns - p * kPanel), result);
  }
}

struct Tile {
  const uint8_t* bytes[kTilePanels];  // [padded / 4][16][4]
  int64_t blocks[kTilePanels];        // the first one of each panel
  int64_t columns;                    // that are there, from the first panel on
  int64_t panels;                     // 1: the second one is the first again
};

template <int kRows>
FERRY_VNNI HWY_NOINLINE void RunTile(const ferry::NbitsMatrix& m, const ferry::NbitsPart& part, const Tile& tile,
                                     int64_t column, const ferry::NbitsRows& rows, int64_t row, float* y,
                                     int64_t y_stride) {
  const int32_t middle = 1 << (m.bits - 1);
  const int64_t padded = m.padded();
  __m512 results[kRows][kTilePanels];
  for (auto& of_row : results)
    for (int p = 0; p < kTilePanels; ++p) of_row[p] = Begin(part, column + p * kPanel);
  const int8_t* a = rows.numbers + row * padded;
  const uint8_t *left = tile.bytes[0], *right = tile.bytes[1];
  for (int64_t at = 0; at < m.blocks; ++at) {
    __m512i sums[kRows][kTilePanels];
    HWY_UNROLL(6)
    for (int i = 0; i < kRows; ++i)
      for (int p = 0; p < kTilePanels; ++p)
        sums[i][p] = _mm512_set1_epi32(TakenOff(middle, rows.sums[(row + i) * m.blocks + at]));
    for (int64_t k = 0; k < m.block; k += 4, a += 4, left += 4 * kPanel, right += 4 * kPanel) {
      const __m512i b0 = _mm512_loadu_si512(left), b1 = _mm512_loadu_si512(right);
      HWY_UNROLL(6) for (int i = 0; i < kRows; ++i) {
        const __m512i four = Spread(a + i * padded);
        sums[i][0] = _mm512_dpbusd_epi32(sums[i][0], b0, four);
        sums[i][1] = _mm512_dpbusd_epi32(sums[i][1], b1, four);
      }
    }
    HWY_UNROLL(6) for (int i = 0; i < kRows; ++i) for (int p = 0; p < kTilePanels; ++p) {
      const int64_t place = (row + i) * m.blocks + at;
      results[i][p] = Finished(m, tile.blocks[p] + at, sums[i][p], rows.scales[place], rows.sums[place], results[i][p]);
    }
  }
  for (int i = 0; i < kRows; ++i)
    for (int p = 0; p < tile.panels; ++p)
      _mm512_mask_storeu_ps(y + (row + i) * y_stride + column + p * kPanel, MaskOf(part.columns - column - p * kPanel),
                            results[i][p]);
}

void SpreadNibbles(const uint32_t* words, int64_t count, uint8_t* bytes) {
  const __m512i nibble = _mm512_set1_epi8(15);
  for (int64_t i = 0; i < count; i += kPanel, bytes += 8 * kPanel) {
    const __m512i both = _mm512_loadu_si512(words + i);
    _mm512_storeu_si512(bytes, _mm512_and_si512(both, nibble));
    _mm512_storeu_si512(bytes + 4 * kPanel, _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble));
  }
}

void Multiply(const ferry::NbitsMatrix& m, const ferry::NbitsPart& part, const ferry::NbitsRows& rows, float* y,
              int64_t y_stride, uint8_t* scratch) {
  if (rows.count == 1) return (m.bits == 4 ? MultiplyRow<4> : MultiplyRow<8>)(m, part, rows, y);
  for (int64_t p = 0; p < part.panels; p += kTilePanels) {
    Tile tile{};
    tile.panels = part.panels - p < kTilePanels ? 1 : kTilePanels;
    for (int64_t i = 0; i < kTilePanels; ++i) {
      const int64_t panel = part.first + p + (i < tile.panels ? i : 0);
      const uint32_t* words = m.words + panel * m.panel_words();
      tile.blocks[i] = panel * m.blocks;
      tile.bytes[i] = reinterpret_cast<const uint8_t*>(words);
      if (m.bits != 4) continue;
      tile.bytes[i] = scratch + (i < tile.panels ? i : 0) * m.padded() * kPanel;
      if (i < tile.panels) SpreadNibbles(words, m.panel_words(), scratch + i * m.padded() * kPanel);
    }
    const int64_t column = p * kPanel;
    int64_t row = 0;
    for (; row + 6 <= rows.count; row += 6) RunTile<6>(m, part, tile, column, rows, row, y, y_stride);
    for (; row + 3 <= rows.count; row += 3) RunTile<3>(m, part, tile, column, rows, row, y, y_stride);
    for (; row < rows.count; ++row) RunTile<1>(m, part, tile, column, rows, row, y, y_stride);
  }
}

}  // namespace

extern const NbitsByteKernels kNbitsByteKernels;
const NbitsByteKernels kNbitsByteKernels = {Quantize, Multiply, true};

}  // namespace ferry::FERRY_ISA

#endif

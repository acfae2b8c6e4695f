// Weights of 4 bits times rows of bytes, for processors with AVX2 and no instruction that adds up four products: pairs
// of products become 16-bit numbers, of which 32 depths can be added before they may run over (8 · 2 · 15 · 127). Of
// each eight depths the even ones come first, then the odd ones: that is how they come out of a word.
#include "kernels/nbits_gemm.h"
#include "kernels/simd/target.h"

#if HWY_TARGET == HWY_AVX2 && defined(__x86_64__)

#include <immintrin.h>

namespace ferry::FERRY_ISA {
namespace {

constexpr int64_t kPanel = ferry::kNbitsPanel, kHalf = kPanel / 2, kDepthsAtOnce = 32;

HWY_INLINE __m256 LoadPart(const float* from, int64_t count) {
  if (count >= 8) return _mm256_loadu_ps(from);
  float part[8] = {};
  for (int64_t i = 0; i < count; ++i) part[i] = from[i];
  return _mm256_loadu_ps(part);
}

HWY_INLINE int32_t SumOf(__m256i v) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

HWY_INLINE float LargestOf(const float* a, int64_t count) {
  // As integers, NaN is larger than every number.
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i largest = _mm256_setzero_si256();
  for (int64_t k = 0; k < count; k += 8)
    largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(LoadPart(a + k, count - k)), magnitude));
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1))));
}

void Quantize(const ferry::NbitsMatrix& m, const float* a, int8_t* numbers, float* scales, int32_t* sums) {
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, -1, -1, -1, -1, -1, -1, -1, -1);
  for (int64_t at = 0; at < m.blocks; ++at) {
    const int64_t begin = at * m.block, count = m.depth - begin < m.block ? m.depth - begin : m.block;
    const float top = LargestOf(a + begin, count);
    const __m256 inverse = _mm256_set1_ps(top > 0 ? 127.0f / top : 0.0f);
    __m256i sum = _mm256_setzero_si256();
    for (int64_t k = 0; k < m.block; k += 8) {
      const __m256 part = k < count ? LoadPart(a + begin + k, count - k) : _mm256_setzero_ps();
      const __m256i whole = _mm256_cvtps_epi32(_mm256_mul_ps(part, inverse));
      sum = _mm256_add_epi32(sum, whole);
      const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(numbers + begin + k),
                       _mm_shuffle_epi8(_mm_packs_epi16(words, words), order));
    }
    scales[at] = top / 127.0f;
    sums[at] = SumOf(sum);
  }
}

HWY_INLINE __m256i Spread(const int8_t* four) {
  int32_t value;
  __builtin_memcpy(&value, four, sizeof value);
  return _mm256_set1_epi32(value);
}

HWY_INLINE __m256i Load(const uint32_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }

// Adds the products of `depths` depths to `sums`, as pairs of 16 bits.
template <int kRows>
HWY_INLINE void AddDepths(const uint32_t* words, int64_t depths, const int8_t* a, int64_t a_stride,
                          __m256i sums[kRows][2]) {
  constexpr int64_t kAhead = 1024;  // words: what will be read soon
  const __m256i nibble = _mm256_set1_epi8(15);
  for (int64_t k = 0; k < depths; k += 8, words += kPanel, a += 8) {
    if constexpr (kRows == 1) __builtin_prefetch(words + kAhead);
    for (int half = 0; half < 2; ++half) {
      const __m256i both = Load(words + half * kHalf);
      const __m256i even = _mm256_and_si256(both, nibble);
      const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
      HWY_UNROLL(3) for (int i = 0; i < kRows; ++i) {
        sums[i][half] = _mm256_add_epi16(sums[i][half], _mm256_maddubs_epi16(even, Spread(a + i * a_stride)));
        sums[i][half] = _mm256_add_epi16(sums[i][half], _mm256_maddubs_epi16(odd, Spread(a + i * a_stride + 4)));
      }
    }
  }
}

// What numbers count from in a block: the middle of their range and the zero points.
HWY_INLINE __m256 CenterOf(const ferry::NbitsMatrix& m, int64_t place) {
  const __m256 middle = _mm256_set1_ps(8.0f);
  if (!m.zeros) return middle;
  const __m128i zeros = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(m.zeros + place));
  return _mm256_add_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(zeros)), middle);
}

template <int kRows>
HWY_NOINLINE void RunTile(const ferry::NbitsMatrix& m, int64_t panel, const ferry::NbitsRows& rows, int64_t row,
                          float results[kRows][kPanel]) {
  const __m256i ones = _mm256_set1_epi16(1);
  const int64_t padded = m.padded(), depths = m.block < kDepthsAtOnce ? m.block : kDepthsAtOnce;
  const int8_t* a = rows.numbers + row * padded;
  const uint32_t* words = m.words + panel * m.panel_words();
  for (int64_t at = 0; at < m.blocks; ++at) {
    const int64_t place = (panel * m.blocks + at) * kPanel;
    __m256 block[kRows][2];
    for (auto& of_row : block) of_row[0] = of_row[1] = _mm256_setzero_ps();
    for (int64_t k = 0; k < m.block; k += depths, a += depths, words += depths * kPanel / 8) {
      __m256i sums[kRows][2];
      for (auto& of_row : sums) of_row[0] = of_row[1] = _mm256_setzero_si256();
      AddDepths<kRows>(words, depths, a, padded, sums);
      for (int i = 0; i < kRows; ++i)
        for (int half = 0; half < 2; ++half) {
          const __m256i pairs = _mm256_madd_epi16(sums[i][half], ones);
          block[i][half] = _mm256_add_ps(block[i][half], _mm256_cvtepi32_ps(pairs));
        }
    }
    for (int half = 0; half < 2; ++half) {
      const __m256 center = CenterOf(m, place + half * kHalf), scale = _mm256_loadu_ps(m.scales + place + half * kHalf);
      HWY_UNROLL(3) for (int i = 0; i < kRows; ++i) {
        const int64_t of_row = (row + i) * m.blocks + at;
        const __m256 sum = _mm256_set1_ps(static_cast<float>(rows.sums[of_row]));
        const __m256 value =
            _mm256_mul_ps(_mm256_fnmadd_ps(center, sum, block[i][half]), _mm256_set1_ps(rows.scales[of_row]));
        float* to = results[i] + half * kHalf;
        _mm256_storeu_ps(to, _mm256_fmadd_ps(value, scale, _mm256_loadu_ps(to)));
      }
    }
  }
}

template <int kRows>
void WriteTile(const ferry::NbitsMatrix& m, const ferry::NbitsPart& part, int64_t p, const ferry::NbitsRows& rows,
               int64_t row, float* y, int64_t y_stride) {
  const int64_t column = p * kPanel, left = part.columns - column, width = left < kPanel ? left : kPanel;
  float results[kRows][kPanel] = {};
  for (int i = 0; i < kRows; ++i)
    for (int64_t n = 0; n < width && part.bias; ++n) results[i][n] = part.bias[column + n];
  RunTile<kRows>(m, part.first + p, rows, row, results);
  for (int i = 0; i < kRows; ++i)
    for (int64_t n = 0; n < width; ++n) y[(row + i) * y_stride + column + n] = results[i][n];
}

void Multiply(const ferry::NbitsMatrix& m, const ferry::NbitsPart& part, const ferry::NbitsRows& rows, float* y,
              int64_t y_stride, uint8_t* /*scratch*/) {
  for (int64_t p = 0; p < part.panels; ++p) {
    int64_t row = 0;
    for (; row + 3 <= rows.count; row += 3) WriteTile<3>(m, part, p, rows, row, y, y_stride);
    for (; row < rows.count; ++row) WriteTile<1>(m, part, p, rows, row, y, y_stride);
  }
}

}  // namespace

extern const NbitsByteKernels kNbitsByteKernels;
const NbitsByteKernels kNbitsByteKernels = {Quantize, Multiply, false};

}  // namespace ferry::FERRY_ISA

#endif

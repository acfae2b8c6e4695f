// The inner loops on 8-bit integers for x86-64 and arm64 (--target): weights in panels of 16 columns, four depths of
// each side by side, as the instructions that multiply and add bytes take them; plain C beside them with the same
// answers.
#include "convert/c/quantized_panels.h"

namespace ferry::c {
namespace {

constexpr std::string_view kFourBytes = R"(static uint32_t four_bytes(const void *p) {
  uint32_t r;
  memcpy(&r, p, 4);
  return r;
}
)";

constexpr std::string_view kX86 = R"(#if defined(__GNUC__) && defined(__AVX2__)
)"
                                  "#include <immintrin.h>\n"
                                  R"(#define PANELS_AVX2 1
#endif
#if defined(PANELS_AVX2)
/* sums of eight columns as levels */
static __attribute__((unused)) __m256i eight_levels(__m256i sum, const float *factor, int low, int high, int zero) {
  const __m256i v = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(factor)));
  return _mm256_min_epi32(_mm256_max_epi32(_mm256_add_epi32(v, _mm256_set1_epi32(zero)), _mm256_set1_epi32(low)), _mm256_set1_epi32(high));
}
static __attribute__((unused)) void store_levels(__m256i a, __m256i b, int count, uint8_t *y) {
  const __m256i bytes = _mm256_set1_epi32(255);
  const __m256i shorts = _mm256_permute4x64_epi64(_mm256_packus_epi32(_mm256_and_si256(a, bytes), _mm256_and_si256(b, bytes)), 0xd8);
  const __m128i all = _mm_packus_epi16(_mm256_castsi256_si128(shorts), _mm256_extracti128_si256(shorts, 1));
  if (count >= 16) {
    _mm_storeu_si128((__m128i *)(void *)y, all);
  } else if (count == 8) {
    _mm_storel_epi64((__m128i *)(void *)y, all);
  } else {
    uint8_t part[16];
    _mm_storeu_si128((__m128i *)(void *)part, all);
    for (int i = 0; i < count; i++) y[i] = part[i];
  }
}
#endif
)";

constexpr std::string_view kArm64 = R"(#if defined(__aarch64__) && defined(__ARM_NEON)
)"
                                    "#include <arm_neon.h>\n"
                                    R"(#define PANELS_NEON 1
#endif
#if defined(PANELS_NEON)
static __attribute__((unused)) int32x4_t four_levels(int32x4_t sum, const float *factor, int low, int high, int zero) {
  const int32x4_t v = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(sum), vld1q_f32(factor)));
  return vminq_s32(vmaxq_s32(vaddq_s32(v, vdupq_n_s32(zero)), vdupq_n_s32(low)), vdupq_n_s32(high));
}
static __attribute__((unused)) void store_levels(int32x4_t a, int32x4_t b, int count, uint8_t *y) {
  const uint8x8_t all = vmovn_u16(vreinterpretq_u16_s16(vcombine_s16(vmovn_s32(a), vmovn_s32(b))));
  if (count >= 8) {
    vst1_u8(y, all);
  } else {
    uint8_t part[8];
    vst1_u8(part, all);
    for (int i = 0; i < count; i++) y[i] = part[i];
  }
}
static __attribute__((unused)) int32x4_t add_products(int32x4_t sum, int8x16_t x, int8x16_t w) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sum, w, x);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(w)), high = vmull_s8(vget_high_s8(x), vget_high_s8(w));
  return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
}
#endif
)";

constexpr std::string_view kDenseX86 = R"(#if defined(PANELS_AVX2)
#if defined(__AVX512VNNI__)
static __attribute__((always_inline, unused)) inline void panel_rows_NAME(const uint8_t *x, int x_stride, const int8_t *w, const int32_t *start,
                                                          const float *factor, int depth, int width, uint8_t *y, int y_stride,
                                                          int low, int high, int zero, const int rows) {
  const __m512 f = _mm512_loadu_ps(factor);
  const __m512i s = _mm512_loadu_si512(start);
  __m512i s0 = s, s1 = s, s2 = s, s3 = s, s4 = s, s5 = s;
#define ROW(i) \
  if (rows > i) s##i = _mm512_dpbusd_epi32(s##i, _mm512_set1_epi32((int)(four_bytes(x + i * x_stride + k) ^ FLIP)), v);
  for (int k = 0; k < depth; k += 4, w += 64) {
    const __m512i v = _mm512_loadu_si512(w);
    ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5)
  }
#undef ROW
#define ROW(i)                                                                                                   \
  if (rows > i) {                                                                                                \
    const __m512i v = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(s##i), f)), _mm512_set1_epi32(zero)); \
    _mm512_mask_cvtepi32_storeu_epi8(y + i * y_stride, (__mmask16)(width < 16 ? (1u << width) - 1u : 0xffffu),      \
                                     _mm512_min_epi32(_mm512_max_epi32(v, _mm512_set1_epi32(low)), _mm512_set1_epi32(high))); \
  }
  ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5)
#undef ROW
}
enum { PANEL_ROWS_NAME = 6 };
#else
/* pairs of even and of odd depths as 16-bit integers */
static __attribute__((always_inline, unused)) inline void panel_rows_NAME(const uint8_t *x, int x_stride, const int8_t *w, const int32_t *start,
                                                          const float *factor, int depth, int width, uint8_t *y, int y_stride,
                                                          int low, int high, int zero, const int rows) {
  const __m256i sa = _mm256_loadu_si256((const __m256i *)(const void *)start), sb = _mm256_loadu_si256((const __m256i *)(const void *)(start + 8));
  const __m256i bytes = _mm256_set1_epi16(255);
  __m256i a0 = sa, a1 = sa, a2 = sa, a3 = sa, b0 = sb, b1 = sb, b2 = sb, b3 = sb;
#define ROW(i)                                                                                                         \
  if (rows > i) {                                                                                                      \
    const __m256i v = _mm256_set1_epi32((int)(four_bytes(x + i * x_stride + k) ^ FLIP));                                   \
    const __m256i even = _mm256_and_si256(v, bytes), odd = _mm256_srli_epi16(v, 8);                                    \
    a##i = _mm256_add_epi32(a##i, _mm256_add_epi32(_mm256_madd_epi16(even, ea), _mm256_madd_epi16(odd, oa)));          \
    b##i = _mm256_add_epi32(b##i, _mm256_add_epi32(_mm256_madd_epi16(even, eb), _mm256_madd_epi16(odd, ob)));          \
  }
  for (int k = 0; k < depth; k += 4, w += 64) {
    const __m256i wa = _mm256_loadu_si256((const __m256i *)(const void *)w), wb = _mm256_loadu_si256((const __m256i *)(const void *)(w + 32));
    const __m256i ea = _mm256_srai_epi16(_mm256_slli_epi16(wa, 8), 8), oa = _mm256_srai_epi16(wa, 8);
    const __m256i eb = _mm256_srai_epi16(_mm256_slli_epi16(wb, 8), 8), ob = _mm256_srai_epi16(wb, 8);
    ROW(0) ROW(1) ROW(2) ROW(3)
  }
#undef ROW
#define ROW(i) \
  if (rows > i) store_levels(eight_levels(a##i, factor, low, high, zero), eight_levels(b##i, factor + 8, low, high, zero), width, y + i * y_stride);
  ROW(0) ROW(1) ROW(2) ROW(3)
#undef ROW
}
enum { PANEL_ROWS_NAME = 4 };
#endif
#define PANEL_VECTORS_NAME 1
#endif
)";

constexpr std::string_view kDenseArm64 = R"(#if defined(PANELS_NEON)
static __attribute__((always_inline, unused)) inline void panel_rows_NAME(const uint8_t *x, int x_stride, const int8_t *w, const int32_t *start,
                                                          const float *factor, int depth, int width, uint8_t *y, int y_stride,
                                                          int low, int high, int zero, const int rows) {
  int32x4_t s0[4], s1[4], s2[4], s3[4];
  for (int j = 0; j < 4; j++) s0[j] = s1[j] = s2[j] = s3[j] = vld1q_s32(start + 4 * j);
  for (int k = 0; k < depth; k += 4, w += 64) {
#define ROW(i)                                                                                            \
  if (rows > i) {                                                                                         \
    const int8x16_t v = vreinterpretq_s8_u32(vdupq_n_u32(four_bytes(x + i * x_stride + k) ^ FLIP));         \
    s##i[0] = add_products(s##i[0], v, w0), s##i[1] = add_products(s##i[1], v, w1);                       \
    s##i[2] = add_products(s##i[2], v, w2), s##i[3] = add_products(s##i[3], v, w3);                       \
  }
    const int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 32), w3 = vld1q_s8(w + 48);
    ROW(0) ROW(1) ROW(2) ROW(3)
#undef ROW
  }
#define ROW(i)                                                                                                                      \
  if (rows > i) {                                                                                                                   \
    store_levels(four_levels(s##i[0], factor, low, high, zero), four_levels(s##i[1], factor + 4, low, high, zero), width, y + i * y_stride); \
    if (width > 8)                                                                                                                  \
      store_levels(four_levels(s##i[2], factor + 8, low, high, zero), four_levels(s##i[3], factor + 12, low, high, zero), width - 8, \
                   y + i * y_stride + 8);                                                                                           \
  }
  ROW(0) ROW(1) ROW(2) ROW(3)
#undef ROW
}
enum { PANEL_ROWS_NAME = 4 };
#define PANEL_VECTORS_NAME 1
#endif
)";

constexpr std::string_view kDense = R"(/* rows of bytes times panels; depth is a whole number of words */
static void dense_panels_NAME(const uint8_t *x, int x_stride, int rows, const int8_t *w, const int32_t *start, const float *factor,
                              int depth, int columns, uint8_t *y, int low, int high, int zero) {
#if defined(PANEL_VECTORS_NAME)
  for (int r = 0; r < rows;) {
    /* as many rows as stay near the processor while all panels go by */
    const int most = 32768 / (depth + 1) / PANEL_ROWS_NAME * PANEL_ROWS_NAME + PANEL_ROWS_NAME;
    const int end = rows - r < most ? rows : r + most;
    for (int n = 0; n < columns; n += 16) {
      const int width = columns - n < 16 ? columns - n : 16;
      const int8_t *const panel = w + n * depth;
      int i = r;
      for (; i + PANEL_ROWS_NAME <= end; i += PANEL_ROWS_NAME)
        panel_rows_NAME(x + i * x_stride, x_stride, panel, start + n, factor + n, depth, width, y + i * columns + n, columns, low, high, zero, PANEL_ROWS_NAME);
      for (; i < end; i++)
        panel_rows_NAME(x + i * x_stride, x_stride, panel, start + n, factor + n, depth, width, y + i * columns + n, columns, low, high, zero, 1);
    }
    r = end;
  }
#else
  const int32_t base = 0x4b400000 - zero;
  for (int r = 0; r < rows; r++, x += x_stride, y += columns)
    for (int n = 0; n < columns; n++) {
      const int8_t *const q = w + n / 16 * 16 * depth + n % 16 * 4;
      int32_t s = start[n];
      for (int k = 0; k < depth; k += 4) {
        const uint32_t v = four_bytes(x + k) ^ FLIP;
        BYTE b[4];
        memcpy(b, &v, 4);
        for (int j = 0; j < 4; j++) s += (int32_t)b[j] * q[k * 16 + j];
      }
      y[n] = small_level(s, factor[n], low, high, base);
    }
#endif
}
)";

constexpr std::string_view kDepthwise = R"(/* weights: pairs of taps for each channel */
static void depthwise_panels_NAME(const uint8_t *x, const int16_t *w, const int32_t *start, const float *factor, uint8_t *pad, uint8_t *y,
                                  int channels, int height, int width, int oh, int ow, int kh, int kw, int sh, int sw, int dh, int dw,
                                  int top, int left, int x_zero, int low, int high, int zero) {
  const int32_t base = 0x4b400000 - zero;
  const uint8_t *tap[26];
  memset(pad, x_zero, (size_t)channels);
  for (int o = 0; o < oh; o++)
    for (int p = 0; p < ow; p++, y += channels) {
      int taps = 0, c = 0;
      for (int i = 0; i < kh; i++) {
        const int u = o * sh - top + i * dh, there = u >= 0 && u < height;
        for (int j = 0, v = p * sw - left; j < kw; j++, v += dw)
          tap[taps++] = there && v >= 0 && v < width ? x + (u * width + v) * channels : pad;
      }
      if (taps % 2) tap[taps++] = pad;
VECTORS_HERE
      for (int rest = channels - c; rest > 0; rest--, c++) {
        int32_t s = start[c];
        for (int t = 0; t < taps; t++) s += (int32_t)((const X_BYTE *)tap[t])[c] * w[(t / 2 * channels + c) * 2 + t % 2];
        y[c] = small_level(s, factor[c], low, high, base);
      }
    }
}
)";

constexpr std::string_view kDepthwiseX86 = R"(#if defined(PANELS_AVX2)
      for (; c + 16 <= channels; c += 16) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(start + c)), b = _mm256_loadu_si256((const __m256i *)(const void *)(start + c + 8));
        const int16_t *q = w + c * 2;
        for (int t = 0; t < taps; t += 2, q += channels * 2) {
          const __m128i f = _mm_loadu_si128((const __m128i *)(const void *)(tap[t] + c)), g = _mm_loadu_si128((const __m128i *)(const void *)(tap[t + 1] + c));
          a = _mm256_add_epi32(a, _mm256_madd_epi16(X_WIDEN(_mm_unpacklo_epi8(f, g)), _mm256_loadu_si256((const __m256i *)(const void *)q)));
          b = _mm256_add_epi32(b, _mm256_madd_epi16(X_WIDEN(_mm_unpackhi_epi8(f, g)), _mm256_loadu_si256((const __m256i *)(const void *)(q + 16))));
        }
        store_levels(eight_levels(a, factor + c, low, high, zero), eight_levels(b, factor + c + 8, low, high, zero), 16, y + c);
      }
      if (c + 8 <= channels) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(start + c));
        const int16_t *q = w + c * 2;
        for (int t = 0; t < taps; t += 2, q += channels * 2) {
          const __m128i f = _mm_loadl_epi64((const __m128i *)(const void *)(tap[t] + c)), g = _mm_loadl_epi64((const __m128i *)(const void *)(tap[t + 1] + c));
          a = _mm256_add_epi32(a, _mm256_madd_epi16(X_WIDEN(_mm_unpacklo_epi8(f, g)), _mm256_loadu_si256((const __m256i *)(const void *)q)));
        }
        a = eight_levels(a, factor + c, low, high, zero);
        store_levels(a, a, 8, y + c);
        c += 8;
      }
#endif
)";

constexpr std::string_view kDepthwiseArm64 = R"(#if defined(PANELS_NEON)
      for (; c + 8 <= channels; c += 8) {
        int32x4_t a = vld1q_s32(start + c), b = vld1q_s32(start + c + 4);
        const int16_t *q = w + c * 2;
        for (int t = 0; t < taps; t += 2, q += channels * 2) {
          const int16x8x2_t v = vld2q_s16(q);
          const int16x8_t f = X_WIDEN(tap[t] + c), g = X_WIDEN(tap[t + 1] + c);
          a = vmlal_s16(vmlal_s16(a, vget_low_s16(f), vget_low_s16(v.val[0])), vget_low_s16(g), vget_low_s16(v.val[1]));
          b = vmlal_s16(vmlal_s16(b, vget_high_s16(f), vget_high_s16(v.val[0])), vget_high_s16(g), vget_high_s16(v.val[1]));
        }
        store_levels(four_levels(a, factor + c, low, high, zero), four_levels(b, factor + c + 4, low, high, zero), 8, y + c);
      }
#endif
)";

std::string Filled(std::string text, bool is_signed, bool x86) {
  const std::pair<std::string_view, std::string_view> words[] = {
      {"VECTORS_HERE\n", x86 ? kDepthwiseX86 : kDepthwiseArm64},
      {"NAME", x86         ? (is_signed ? "s8_x86" : "u8_x86")
               : is_signed ? "s8_arm64"
                           : "u8_arm64"},
      {"FLIP", is_signed == x86 ? "0x80808080u" : "0u"},
      {"X_BYTE", is_signed ? "int8_t" : "uint8_t"},
      {"BYTE", x86 ? "uint8_t" : "int8_t"},
      {"X_WIDEN(", x86         ? (is_signed ? "_mm256_cvtepi8_epi16(" : "_mm256_cvtepu8_epi16(")
                   : is_signed ? "load_s8("
                               : "load_u8("},
  };
  for (const auto& [from, to] : words)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

constexpr std::string_view kArmLoads = R"(#if defined(PANELS_NEON)
#define load_s8(p) vmovl_s8(vld1_s8((const int8_t *)(p)))
#define load_u8(p) vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p)))
#endif
)";

std::vector<Helper> MakeHelpers() {
  static std::vector<std::string> texts, names;
  std::vector<Helper> helpers;
  texts.reserve(16), names.reserve(16);
  for (const bool x86 : {true, false}) {
    const char* const target = x86 ? "_x86" : "_arm64";
    texts.push_back(x86 ? Cat(kFourBytes, kX86) : Cat(kFourBytes, kArm64, kArmLoads));
    names.push_back(Cat("panels", target));
    const std::string_view common = names.back();
    helpers.push_back({common, texts.back(), {"small_level"}});
    for (const bool is_signed : {true, false}) {
      const char* const bytes = is_signed ? "_s8" : "_u8";
      texts.push_back(Filled(Cat(x86 ? kDenseX86 : kDenseArm64, kDense), is_signed, x86));
      names.push_back(Cat("dense_panels", bytes, target));
      helpers.push_back({names.back(), texts.back(), {common}});
      texts.push_back(Filled(std::string(kDepthwise), is_signed, x86));
      names.push_back(Cat("depthwise_panels", bytes, target));
      helpers.push_back({names.back(), texts.back(), {common}});
    }
  }
  return helpers;
}

}  // namespace

const std::vector<Helper>& PanelHelpers() {
  static const std::vector<Helper> helpers = MakeHelpers();
  return helpers;
}

Tensor PackInt8Panels(const Tensor& rows, int64_t columns, int64_t depth) {
  const int64_t panels = (columns + 15) / 16, wide = (depth + 3) / 4 * 4;
  Tensor packed(DType::kInt8, Shape{panels * 16 * wide});
  int8_t* to = packed.MutableData<int8_t>();
  std::fill_n(to, packed.size(), int8_t{0});
  for (int64_t n = 0; n < columns; ++n)
    for (int64_t k = 0; k < depth; ++k)
      to[n / 16 * 16 * wide + k / 4 * 64 + n % 16 * 4 + k % 4] = rows.Data<int8_t>()[n * depth + k];
  return packed;
}

Tensor PackTapPairs(const Tensor& rows, int64_t channels, int64_t taps) {
  const int64_t pairs = (taps + 1) / 2;
  Tensor packed(DType::kInt16, Shape{pairs, channels, 2});
  std::fill_n(packed.MutableData<int16_t>(), packed.size(), int16_t{0});
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t t = 0; t < taps; ++t)
      packed.MutableData<int16_t>()[(t / 2 * channels + c) * 2 + t % 2] = rows.Data<int8_t>()[c * taps + t];
  return packed;
}

}  // namespace ferry::c

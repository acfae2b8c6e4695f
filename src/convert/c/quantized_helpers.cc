// The inner loops on 8-bit integers: SMLAD for Cortex-M with DSP instructions, Helium for those that have it, plain C
// beside them with the same answers.
#include "convert/c/step_writer.h"

namespace ferry::c {
namespace {

constexpr std::string_view kLevel = R"(/* nearest integer, halves to even, plus the zero point, within limits */
static int level(float v, int low, int high, int zero) {
  const float least = (float)(low - zero), most = (float)(high - zero);
  float r = v;
  int32_t bits;
  if (!(r > least)) r = least;
  if (r > most) r = most;
  r += 12582912.0f;
  memcpy(&bits, &r, 4);
  return bits - 0x4b400000 + zero;
}
)";

// For sums whose product with the factor is known to be small.
constexpr std::string_view kSmallLevel = R"(#if defined(__GNUC__)
#define ALWAYS_INLINE __attribute__((always_inline)) inline
#else
#define ALWAYS_INLINE inline
#endif
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
#include <arm_mve.h>
#define HELIUM 1
#elif defined(__ARM_FEATURE_DSP) && defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define SMLAD 1
static ALWAYS_INLINE int32_t smlad(uint32_t a, uint32_t b, int32_t c) {
  int32_t r;
  __asm__("smlad %0, %1, %2, %3" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
static ALWAYS_INLINE int32_t smlabb(uint32_t a, uint32_t b, int32_t c) {
  int32_t r;
  __asm__("smlabb %0, %1, %2, %3" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
static ALWAYS_INLINE int32_t smlatt(uint32_t a, uint32_t b, int32_t c) {
  int32_t r;
  __asm__("smlatt %0, %1, %2, %3" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
static ALWAYS_INLINE uint32_t sxtb16(uint32_t a) {
  uint32_t r;
  __asm__("sxtb16 %0, %1" : "=r"(r) : "r"(a));
  return r;
}
static ALWAYS_INLINE uint32_t sxtb16_high(uint32_t a) {
  uint32_t r;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(r) : "r"(a));
  return r;
}
static ALWAYS_INLINE uint32_t uxtb16(uint32_t a) {
  uint32_t r;
  __asm__("uxtb16 %0, %1" : "=r"(r) : "r"(a));
  return r;
}
static ALWAYS_INLINE uint32_t uxtb16_high(uint32_t a) {
  uint32_t r;
  __asm__("uxtb16 %0, %1, ror #8" : "=r"(r) : "r"(a));
  return r;
}
static ALWAYS_INLINE uint32_t word(const void *p) {
  uint32_t r;
  memcpy(&r, p, 4);
  return r;
}
#endif
/* base: the bits of 1.5 * 2^23, less the zero point */
static ALWAYS_INLINE uint8_t small_level(int32_t sum, float factor, int low, int high, int32_t base) {
  const float v = (float)sum * factor + 12582912.0f;
  int32_t r;
  memcpy(&r, &v, 4);
  r -= base;
  r = r < low ? low : r;
  r = r > high ? high : r;
  return (uint8_t)r;
}
)";

constexpr std::string_view kWindow =
    R"(/* the bytes of one window as a row: taps, then channels; padding is the zero point */
static void window_q(const uint8_t *x, uint8_t *to, int channels, int channel_stride, int pixel_stride, int height, int width, int kh,
                     int kw, int dh, int dw, int top, int left, int zero, int rest) {
  for (int i = 0; i < kh; i++) {
    const int u = top + i * dh;
    for (int j = 0; j < kw; j++, to += channels) {
      const int v = left + j * dw;
      const uint8_t *from = x + (u * width + v) * pixel_stride;
      if (u < 0 || u >= height || v < 0 || v >= width) memset(to, zero, (size_t)channels);
      else if (channel_stride == 1) memcpy(to, from, (size_t)channels);
      else
        for (int c = 0; c < channels; c++) to[c] = from[c * channel_stride];
    }
  }
  for (int k = 0; k < rest; k++) to[k] = 0;
}
)";

// EXT: s or u; BYTE: int8_t or uint8_t.
constexpr std::string_view kDense = R"(/* rows of bytes times rows of weights; depth is a whole number of words */
static void dense_NAME(const uint8_t *x, int x_stride, int rows, const int8_t *w, const int32_t *start, const float *factor, int depth,
                     int columns, int16_t *wide, uint8_t *y, int low, int high, int zero) {
  const int32_t base = 0x4b400000 - zero;
#if defined(SMLAD)
  uint32_t *const pairs = (uint32_t *)(void *)wide;
  for (int r = 0; r < rows; r += 2, x += 2 * x_stride, y += 2 * columns) {
    const int second = r + 1 < rows;
    const int8_t *p = w;
    int n = 0;
    for (int i = 0; i < 1 + second; i++) {
      const uint8_t *from = x + i * x_stride;
      uint32_t *to = pairs + i * (depth / 2);
      for (int k = 0; k < depth; k += 4, to += 2) {
        const uint32_t v = word(from + k);
        to[0] = EXTxtb16(v);
        to[1] = EXTxtb16_high(v);
      }
    }
    if (!second) memset(pairs + depth / 2, 0, (size_t)depth * 2);
    for (; n + 2 <= columns; n += 2, p += 2 * depth) {
      const uint32_t *a = pairs, *b = pairs + depth / 2;
      const int8_t *q0 = p, *q1 = p + depth;
      int32_t s00 = start[n], s01 = start[n + 1], s10 = s00, s11 = s01;
      const int8_t *const end = q1;
      do {
        const uint32_t w0 = word(q0), w1 = word(q1);
        const uint32_t u0 = sxtb16(w0), v0 = sxtb16_high(w0), u1 = sxtb16(w1), v1 = sxtb16_high(w1);
        const uint32_t a0 = a[0], a1 = a[1], b0 = b[0], b1 = b[1];
        s00 = smlad(a0, u0, s00);
        s01 = smlad(a0, u1, s01);
        s10 = smlad(b0, u0, s10);
        s11 = smlad(b0, u1, s11);
        s00 = smlad(a1, v0, s00);
        s01 = smlad(a1, v1, s01);
        s10 = smlad(b1, v0, s10);
        s11 = smlad(b1, v1, s11);
        q0 += 4, q1 += 4, a += 2, b += 2;
      } while (q0 != end);
      y[n] = small_level(s00, factor[n], low, high, base);
      y[n + 1] = small_level(s01, factor[n + 1], low, high, base);
      if (second) {
        y[columns + n] = small_level(s10, factor[n], low, high, base);
        y[columns + n + 1] = small_level(s11, factor[n + 1], low, high, base);
      }
    }
    for (; n < columns; n++, p += depth)
      for (int i = 0; i < 1 + second; i++) {
        const uint32_t *a = pairs + i * (depth / 2);
        int32_t s = start[n];
        for (int k = 0; k < depth; k += 4, a += 2) {
          const uint32_t v = word(p + k);
          s = smlad(a[0], sxtb16(v), s);
          s = smlad(a[1], sxtb16_high(v), s);
        }
        y[i * columns + n] = small_level(s, factor[n], low, high, base);
      }
  }
  return;
#else
  (void)wide;
  for (int r = 0; r < rows; r++, x += x_stride, y += columns) {
    const BYTE *const a = (const BYTE *)x;
    const int8_t *p = w;
    int n = 0;
#if defined(HELIUM)
    for (; n + 4 <= columns; n += 4, p += 4 * depth) {
      int32_t s[4] = {start[n], start[n + 1], start[n + 2], start[n + 3]};
      for (int k = 0; k < depth; k += LANES) {
        const mve_pred16_t tail = vctpLANEq((uint32_t)(depth - k));
        const VEC v = LOADX(a + k, tail);
        s[0] = vmladavaq_p_sKIND(s[0], v, LOADW(p + k, tail), tail);
        s[1] = vmladavaq_p_sKIND(s[1], v, LOADW(p + depth + k, tail), tail);
        s[2] = vmladavaq_p_sKIND(s[2], v, LOADW(p + 2 * depth + k, tail), tail);
        s[3] = vmladavaq_p_sKIND(s[3], v, LOADW(p + 3 * depth + k, tail), tail);
      }
      {
        int32x4_t t = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(vld1q_s32(s)), vld1q_f32(factor + n)));
        t = vminq_s32(vmaxq_s32(vaddq_n_s32(t, zero), vdupq_n_s32(low)), vdupq_n_s32(high));
        vstrbq_s32((int8_t *)y + n, t);
      }
    }
#endif
    for (; n < columns; n++, p += depth) {
      int32_t s = start[n];
      for (int k = 0; k < depth; k++) s += (int32_t)a[k] * p[k];
      y[n] = small_level(s, factor[n], low, high, base);
    }
  }
#endif
}
)";

constexpr std::string_view kDepthwise =
    R"(static void depthwise_NAME(const uint8_t *x, const int8_t *w, const int32_t *start, const float *factor, uint8_t *pad, uint8_t *y,
                         int channels, int height, int width, int oh, int ow, int kh, int kw, int sh, int sw, int dh, int dw, int top,
                         int left, int x_zero, int low, int high, int zero) {
  const int32_t base = 0x4b400000 - zero;
  const uint8_t *tap[49];
  memset(pad, x_zero, (size_t)channels);
  for (int o = 0; o < oh; o++)
    for (int p = 0; p < ow; p++, y += channels) {
      int taps = 0, c = 0;
      for (int i = 0; i < kh; i++)
        for (int j = 0; j < kw; j++) {
          const int u = o * sh - top + i * dh, v = p * sw - left + j * dw;
          tap[taps++] = u < 0 || u >= height || v < 0 || v >= width ? pad : x + (u * width + v) * channels;
        }
#if defined(SMLAD)
      for (; c + 4 <= channels; c += 4) {
        const int8_t *q = w + c;
        int32_t s0 = start[c], s1 = start[c + 1], s2 = start[c + 2], s3 = start[c + 3];
        const uint8_t *const *t = tap, *const *const end = tap + taps;
        do {
          const uint32_t a = word(*t + c), b = word(q);
          const uint32_t a0 = EXTxtb16(a), a1 = EXTxtb16_high(a), b0 = sxtb16(b), b1 = sxtb16_high(b);
          s0 = smlabb(a0, b0, s0);
          s2 = smlatt(a0, b0, s2);
          s1 = smlabb(a1, b1, s1);
          s3 = smlatt(a1, b1, s3);
          q += channels;
        } while (++t != end);
        y[c] = small_level(s0, factor[c], low, high, base);
        y[c + 1] = small_level(s1, factor[c + 1], low, high, base);
        y[c + 2] = small_level(s2, factor[c + 2], low, high, base);
        y[c + 3] = small_level(s3, factor[c + 3], low, high, base);
      }
#elif defined(HELIUM)
      for (; c + 4 <= channels; c += 4) {
        int32x4_t s = vld1q_s32(start + c);
        for (int t = 0; t < taps; t++) s = vmlaq_s32_HELIUM(s, LOAD4(tap[t] + c), vldrbq_s32(w + t * channels + c));
        s = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(s), vld1q_f32(factor + c)));
        s = vminq_s32(vmaxq_s32(vaddq_n_s32(s, zero), vdupq_n_s32(low)), vdupq_n_s32(high));
        vstrbq_s32((int8_t *)y + c, s);
      }
#endif
      for (; c < channels; c++) {
        int32_t s = start[c];
        for (int t = 0; t < taps; t++) s += (int32_t)((const BYTE *)tap[t])[c] * w[t * channels + c];
        y[c] = small_level(s, factor[c], low, high, base);
      }
    }
}
)";

std::string Filled(std::string_view text, bool is_signed) {
  const std::pair<const char*, const char*> words[] = {
      {"NAME", is_signed ? "s8" : "u8"},
      {"EXT", is_signed ? "s" : "u"},
      {"BYTE", is_signed ? "int8_t" : "uint8_t"},
      {"LANES", is_signed ? "16" : "8"},
      {"vctpLANEq", is_signed ? "vctp8q" : "vctp16q"},
      {"VEC", is_signed ? "int8x16_t" : "int16x8_t"},
      {"LOADX(", is_signed ? "vldrbq_z_s8(" : "(int16x8_t)vldrbq_z_u16("},
      {"LOADW(", is_signed ? "vldrbq_z_s8(" : "vldrbq_z_s16("},
      {"sKIND", is_signed ? "s8" : "s16"},
      {"vmlaq_s32_HELIUM(s, LOAD4(tap[t] + c), ",
       is_signed ? "vaddq_s32(s, vmulq_s32(vldrbq_s32((const int8_t *)tap[t] + c), "
                 : "vaddq_s32(s, vmulq_s32((int32x4_t)vldrbq_u32(tap[t] + c), "},
      {"vldrbq_s32(w + t * channels + c));", "vldrbq_s32(w + t * channels + c)));"},
  };
  std::string out(text);
  for (const auto& [from, to] : words)
    for (size_t at = out.find(from); at != std::string::npos; at = out.find(from, at + std::string_view(to).size()))
      out.replace(at, std::string_view(from).size(), to);
  return out;
}

}  // namespace

const std::vector<Helper>& QuantizedHelpers() {
  static const std::string dense_s8 = Filled(kDense, true), dense_u8 = Filled(kDense, false),
                           depthwise_s8 = Filled(kDepthwise, true), depthwise_u8 = Filled(kDepthwise, false);
  static const std::vector<Helper> helpers = {
      {"level", kLevel},
      {"small_level", kSmallLevel},
      {"window_q", kWindow},
      {"dense_s8", dense_s8, {"small_level"}},
      {"dense_u8", dense_u8, {"small_level"}},
      {"depthwise_s8", depthwise_s8, {"small_level"}},
      {"depthwise_u8", depthwise_u8, {"small_level"}},
  };
  return helpers;
}

}  // namespace ferry::c

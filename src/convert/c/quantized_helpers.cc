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
#define ALWAYS_INLINE __attribute__((always_inline, unused)) inline
#else
#define ALWAYS_INLINE inline
#endif
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
)"
                                         "#include <arm_mve.h>\n"
                                         R"(#define HELIUM 1
#elif defined(__ARM_FEATURE_DSP) && defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define SMLAD 1
static ALWAYS_INLINE int32_t smlad(uint32_t a, uint32_t b, int32_t c) {
  int32_t r;
  __asm__("smlad %0, %1, %2, %3" : "=r"(r) : "r"(a), "r"(b), "r"(c));
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
#define TWICE(v) (((uint32_t)(v) & 0xffffu) * 0x10001u)
static ALWAYS_INLINE uint32_t word(const void *p) {
  uint32_t r;
  memcpy(&r, p, 4);
  return r;
}
/* Two levels at once: the low half of a float beside 1.5 * 2^23, the zero point added to that, where levels fit 16 bits;
   wide ones are saturated first. Then bytes, of the whole range or cut to limits given twice. */
static ALWAYS_INLINE uint32_t two_levels(int32_t s0, int32_t s1, float f0, float f1, uint32_t low, uint32_t high, float magic, int wide) {
  const float v0 = (float)s0 * f0 + magic, v1 = (float)s1 * f1 + magic;
  uint32_t r0, r1, r, t;
  memcpy(&r0, &v0, 4);
  memcpy(&r1, &v1, 4);
  if (wide) {
    __asm__("ssat %0, #16, %1" : "=r"(r0) : "r"(r0 - 0x4b400000u));
    __asm__("ssat %0, #16, %1" : "=r"(r1) : "r"(r1 - 0x4b400000u));
  }
  __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(r) : "r"(r0), "r"(r1));
  if (low == TWICE(-128) && high == TWICE(127)) {
    __asm__("ssat16 %0, #8, %1" : "=r"(r) : "r"(r));
  } else if (low == 0 && high == TWICE(255)) {
    __asm__("usat16 %0, #8, %1" : "=r"(r) : "r"(r));
  } else {
    __asm__("ssub16 %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(t) : "r"(r), "r"(low) : "cc");
    __asm__("ssub16 %0, %1, %2\n\tsel %0, %2, %1" : "=&r"(r) : "r"(t), "r"(high) : "cc");
  }
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
  if (channel_stride != 1 && top >= 0 && left >= 0 && top + (kh - 1) * dh < height && left + (kw - 1) * dw < width) {
    for (int c = 0; c < channels; c++) {
      const uint8_t *row = x + c * channel_stride + top * width + left;
      uint8_t *at = to + c;
      for (int i = 0; i < kh; i++, row += dh * width) {
        const uint8_t *from = row;
        int j = kw;
        for (; j >= 3; j -= 3, from += 3 * dw, at += 3 * channels) {
          const uint8_t b0 = from[0], b1 = from[dw], b2 = from[2 * dw];
          at[0] = b0;
          at[channels] = b1;
          at[2 * channels] = b2;
        }
        for (; j > 0; j--, from += dw, at += channels) *at = *from;
      }
    }
    to += kh * kw * channels;
  } else if (channel_stride != 1) {
    for (int c = 0; c < channels; c++) {
      uint8_t *at = to + c;
      for (int i = 0; i < kh; i++) {
        const int u = top + i * dh;
        const uint8_t *const row = x + c * channel_stride + u * width;
        const int there = u >= 0 && u < height;
        for (int j = 0, v = left; j < kw; j++, v += dw, at += channels) *at = there && v >= 0 && v < width ? row[v] : (uint8_t)zero;
      }
    }
    to += kh * kw * channels;
  } else {
    for (int i = 0; i < kh; i++) {
      const int u = top + i * dh;
      for (int j = 0; j < kw; j++, to += channels) {
        const int v = left + j * dw;
        if (u < 0 || u >= height || v < 0 || v >= width) memset(to, zero, (size_t)channels);
        else memcpy(to, x + (u * width + v) * pixel_stride, (size_t)channels);
      }
    }
  }
  for (int k = 0; k < rest; k++) to[k] = 0;
}
)";

// EXT: s or u; BYTE: int8_t or uint8_t.
constexpr std::string_view kDense = R"(/* rows of bytes times rows of weights; depth is a whole number of words */
static void dense_NAME(const uint8_t *x, int x_stride, int rows, const int8_t *w, const int32_t *start, const float *factor, int depth,
                     int columns, int16_t *wide, uint8_t *y, int low, int high, int zero, int is_wide) {
  const int32_t base = 0x4b400000 - zero;
#if defined(SMLAD)
  /* four rows side by side, widened: {a0 a2} {b0 b2} {c0 c2} {d0 d2}, then {a1 a3} ... */
  uint32_t *const pairs = (uint32_t *)(void *)wide;
  const uint32_t least = TWICE(low), most = TWICE(high);
  const float magic = 12582912.0f + (float)zero;
  for (; rows > 1; rows -= 4, x += 4 * x_stride, y += 4 * columns) {
    const int there = rows < 4 ? rows : 4;
    const int8_t *q = w;
    for (int i = 0; i < 4; i++) {
      const uint8_t *from = i < there ? x + i * x_stride : x;
      uint32_t *to = pairs + i;
      for (int k = 0; k < depth; k += 4, to += 8) {
        const uint32_t v = word(from + k);
        to[0] = EXTxtb16(v);
        to[4] = EXTxtb16_high(v);
      }
    }
    for (int n = 0; n < columns; n++) {
      int32_t s0 = start[n], s1 = s0, s2 = s0, s3 = s0;
      const uint32_t *a = pairs;
      const int8_t *const end = q + depth;
      uint32_t u, v, t, z;
#define WORD                                                                                       \
  "ldr %[u], [%[q]], #4\n\tldrd %[t], %[z], [%[a]], #8\n\tsxtb16 %[v], %[u]\n\t"                  \
  "smlad %[s0], %[t], %[v], %[s0]\n\tsmlad %[s1], %[z], %[v], %[s1]\n\tldrd %[t], %[z], [%[a]], #8\n\t" \
  "sxtb16 %[u], %[u], ror #8\n\tsmlad %[s2], %[t], %[v], %[s2]\n\tsmlad %[s3], %[z], %[v], %[s3]\n\t" \
  "ldrd %[t], %[z], [%[a]], #8\n\tsmlad %[s0], %[t], %[u], %[s0]\n\tsmlad %[s1], %[z], %[u], %[s1]\n\t" \
  "ldrd %[t], %[z], [%[a]], #8\n\tsmlad %[s2], %[t], %[u], %[s2]\n\tsmlad %[s3], %[z], %[u], %[s3]\n\t"
#define OPERANDS                                                                                              \
  [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [q] "+r"(q), [a] "+r"(a), [u] "=&r"(u), [v] "=&r"(v), \
      [t] "=&r"(t), [z] "=&r"(z)
      if (depth & 4) __asm__ volatile(WORD : OPERANDS : : "memory");
      if (depth & ~7) __asm__ volatile("1:\n\t" WORD WORD "cmp %[q], %[end]\n\tbne 1b" : OPERANDS : [end] "r"(end) : "cc", "memory");
#undef WORD
#undef OPERANDS
      {
        const float f = factor[n];
        uint32_t l = two_levels(s0, s1, f, f, least, most, magic, is_wide);
        uint32_t h = two_levels(s2, s3, f, f, least, most, magic, is_wide);
        uint8_t *to = y + n;
        to[0] = (uint8_t)l;
        if (there == 4) {
          to[columns] = (uint8_t)(l >> 16);
          to[2 * columns] = (uint8_t)h;
          to[3 * columns] = (uint8_t)(h >> 16);
        } else {
          if (there > 1) to[columns] = (uint8_t)(l >> 16);
          if (there > 2) to[2 * columns] = (uint8_t)h;
        }
      }
    }
  }
  if (rows == 1) {
    uint32_t *to = pairs;
    for (int k = 0; k < depth; k += 4, to += 2) {
      const uint32_t v = word(x + k);
      to[0] = EXTxtb16(v);
      to[1] = EXTxtb16_high(v);
    }
    for (int n = 0; n < columns; n++) {
      const uint32_t *a = pairs;
      const int8_t *const end = w + depth;
      int32_t s = start[n];
      do {
        const uint32_t v = word(w);
        s = smlad(a[0], sxtb16(v), s);
        s = smlad(a[1], sxtb16_high(v), s);
        w += 4, a += 2;
      } while (w != end);
      y[n] = small_level(s, factor[n], low, high, base);
    }
  }
#else
  (void)wide;
  (void)is_wide;
  for (int r = 0; r < rows; r++, x += x_stride, y += columns) {
    const BYTE *const a = (const BYTE *)x;
    const int8_t *p = w;
    int n = 0;
#if defined(HELIUM)
    for (; n + 4 <= columns; n += 4, p += 4 * depth) {
      int32_t s0 = start[n], s1 = start[n + 1], s2 = start[n + 2], s3 = start[n + 3];
      int k = 0;
      for (; k + LANES <= depth; k += LANES) {
        const VEC v = FULLX(a + k);
        s0 = vmladavaq_sKIND(s0, v, FULLW(p + k));
        s1 = vmladavaq_sKIND(s1, v, FULLW(p + depth + k));
        s2 = vmladavaq_sKIND(s2, v, FULLW(p + 2 * depth + k));
        s3 = vmladavaq_sKIND(s3, v, FULLW(p + 3 * depth + k));
      }
      if (k < depth) {
        const mve_pred16_t tail = vctpLANEq((uint32_t)(depth - k));
        const VEC v = LOADX(a + k, tail);
        s0 = vmladavaq_sKIND(s0, v, LOADW(p + k, tail));
        s1 = vmladavaq_sKIND(s1, v, LOADW(p + depth + k, tail));
        s2 = vmladavaq_sKIND(s2, v, LOADW(p + 2 * depth + k, tail));
        s3 = vmladavaq_sKIND(s3, v, LOADW(p + 3 * depth + k, tail));
      }
      {
        int32x4_t t = vdupq_n_s32(s0);
        t = vsetq_lane_s32(s1, t, 1);
        t = vsetq_lane_s32(s2, t, 2);
        t = vsetq_lane_s32(s3, t, 3);
        t = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(t), vld1q_f32(factor + n)));
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
    R"(/* weights: for four channels, pairs of taps of each, then a last tap alone */
static void depthwise_NAME(const uint8_t *x, const int16_t *w, const int32_t *start, const float *factor, uint8_t *pad, uint8_t *y,
                         int channels, int height, int width, int oh, int ow, int kh, int kw, int sh, int sw, int dh, int dw, int top,
                         int left, int x_zero, int low, int high, int zero, int is_wide) {
  const int32_t base = 0x4b400000 - zero;
  const uint8_t *tap[25];
#if defined(SMLAD)
  const uint32_t least = TWICE(low), most = TWICE(high);
  const float magic = 12582912.0f + (float)zero;
#else
  (void)is_wide;
#endif
  memset(pad, x_zero, (size_t)channels);
  for (int o = 0; o < oh; o++)
    for (int p = 0; p < ow; p++, y += channels) {
      const int u0 = o * sh - top, v0 = p * sw - left;
      int taps = 0, c = 0;
      if (u0 >= 0 && v0 >= 0 && u0 + (kh - 1) * dh < height && v0 + (kw - 1) * dw < width) {
        const uint8_t *row = x + (u0 * width + v0) * channels;
        for (int i = 0; i < kh; i++, row += dh * width * channels) {
          const uint8_t *at = row;
          for (int j = 0; j < kw; j++, at += dw * channels) tap[taps++] = at;
        }
      } else
        for (int i = 0; i < kh; i++)
          for (int j = 0; j < kw; j++) {
          const int u = o * sh - top + i * dh, v = p * sw - left + j * dw;
          tap[taps++] = u < 0 || u >= height || v < 0 || v >= width ? pad : x + (u * width + v) * channels;
        }
#if defined(SMLAD)
#define PAIR                                                                                                   \
  "ldrd %[a], %[b], [%[t]], #8\n\tldr %[a], [%[a], %[c]]\n\tldr %[b], [%[b], %[c]]\n\tldrd %[f], %[g], [%[q]], #8\n\t" \
  "pkhbt %[u], %[a], %[b], lsl #16\n\tpkhtb %[b], %[b], %[a], asr #16\n\tEXTxtb16 %[a], %[u]\n\t"                      \
  "smlad %[s0], %[a], %[f], %[s0]\n\tEXTxtb16 %[u], %[u], ror #8\n\tsmlad %[s1], %[u], %[g], %[s1]\n\t"                \
  "ldrd %[f], %[g], [%[q]], #8\n\tEXTxtb16 %[a], %[b]\n\tsmlad %[s2], %[a], %[f], %[s2]\n\t"                           \
  "EXTxtb16 %[b], %[b], ror #8\n\tsmlad %[s3], %[b], %[g], %[s3]\n\t"
#define LAST                                                                                                  \
  "ldr %[a], [%[t]]\n\tldr %[a], [%[a], %[c]]\n\tldrd %[f], %[g], [%[q]], #8\n\tEXTxtb16 %[u], %[a]\n\t"              \
  "EXTxtb16 %[a], %[a], ror #8\n\tsmlabb %[s0], %[u], %[f], %[s0]\n\tsmlabt %[s1], %[a], %[f], %[s1]\n\t"              \
  "smlatb %[s2], %[u], %[g], %[s2]\n\tsmlatt %[s3], %[a], %[g], %[s3]\n\t"
#define OPERANDS                                                                                                   \
  [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [q] "+r"(q), [t] "+r"(t), [a] "=&r"(a), [b] "=&r"(b), \
      [f] "=&r"(f), [g] "=&r"(g), [u] "=&r"(u)
      {
        const int16_t *q = w;
        for (; c + 4 <= channels; c += 4) {
          int32_t s0 = start[c], s1 = start[c + 1], s2 = start[c + 2], s3 = start[c + 3];
          const uint8_t *const *t = tap;
          uint32_t a, b, f, g, u;
          if (taps == 9) {
            __asm__ volatile(PAIR PAIR PAIR PAIR LAST : OPERANDS : [c] "r"(c) : "memory");
          } else {
            for (int k = taps / 2; k > 0; k--) __asm__ volatile(PAIR : OPERANDS : [c] "r"(c) : "memory");
            if (taps & 1) __asm__ volatile(LAST : OPERANDS : [c] "r"(c) : "memory");
          }
          {
            const uint32_t l = two_levels(s0, s2, factor[c], factor[c + 2], least, most, magic, is_wide);
            const uint32_t h = two_levels(s1, s3, factor[c + 1], factor[c + 3], least, most, magic, is_wide);
            const uint32_t all = (l & 0xff00ffu) | (h & 0xff00ffu) << 8;
            memcpy(y + c, &all, 4);
          }
        }
      }
#undef PAIR
#undef LAST
#undef OPERANDS
#elif defined(HELIUM)
#define PAIR(t)                                                                                                             \
  {                                                                                                                         \
    const int16x8_t a = (int16x8_t)vsliq_n_s32(LOAD4(tap[t] + c), LOAD4(tap[(t) + 1] + c), 16), b = vld1q_s16(q);               \
    s = vaddq_s32(vaddq_s32(s, vmullbq_int_s16(a, b)), vmulltq_int_s16(a, b));                                              \
    q += 8;                                                                                                                 \
  }
      {
        const int16_t *q = w;
        for (; c + 4 <= channels; c += 4) {
          int32x4_t s = vld1q_s32(start + c);
          if (taps == 9) {
            PAIR(0)
            PAIR(2)
            PAIR(4)
            PAIR(6)
          } else
            for (int t = 0; t + 2 <= taps; t += 2) PAIR(t)
          if (taps & 1) {
            s = vaddq_s32(s, vmulq_s32(LOAD4(tap[taps - 1] + c), vldrhq_s32(q)));
            q += 4;
          }
          s = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(s), vld1q_f32(factor + c)));
          s = vminq_s32(vmaxq_s32(vaddq_n_s32(s, zero), vdupq_n_s32(low)), vdupq_n_s32(high));
          vstrbq_s32((int8_t *)y + c, s);
        }
      }
#undef PAIR
#endif
      for (int rest = channels - c; rest > 0; rest--, c++) {
        const int16_t *const q = w + c / 4 * 4 * taps;
        int32_t s = start[c];
        for (int t = 0; t < taps; t++)
          s += (int32_t)((const BYTE *)tap[t])[c] * (t + 1 < taps || taps % 2 == 0 ? q[t / 2 * 8 + c % 4 * 2 + t % 2] : q[t * 4 + c % 4]);
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
      {"FULLX(", is_signed ? "vldrbq_s8(" : "(int16x8_t)vldrbq_u16("},
      {"FULLW(", is_signed ? "vldrbq_s8(" : "vldrbq_s16("},
      {"LOADX(", is_signed ? "vldrbq_z_s8(" : "(int16x8_t)vldrbq_z_u16("},
      {"LOADW(", is_signed ? "vldrbq_z_s8(" : "vldrbq_z_s16("},
      {"sKIND", is_signed ? "s8" : "s16"},
      {"LOAD4(", is_signed ? "vldrbq_s32((const int8_t *)" : "(int32x4_t)vldrbq_u32("},
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

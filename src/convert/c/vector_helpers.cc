// Float products and depthwise convolutions for processors with vectors: AVX-512, AVX2, SSE2 and NEON by one text.
#include "convert/c/step_writer.h"

namespace ferry::c {
namespace {

constexpr std::string_view kVectors = R"c(#ifdef __FP_FAST_FMAF
#define MADD(a, b, c) __builtin_fmaf((a), (b), (c))
#else
#define MADD(a, b, c) ((a) * (b) + (c))
#endif
#if defined(__GNUC__) && (defined(__SSE2__) || (defined(__aarch64__) && defined(__ARM_NEON)))
#define VECTORS 1
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define TILE_INLINE static __attribute__((always_inline, unused)) inline
#if defined(__SSE2__)
)c"
                                      "#include <immintrin.h>\n"
                                      R"(#else
)"
                                      "#include <arm_neon.h>\n"
                                      R"(#endif
/* WEIGHTS: part j of the columns of a tile, from panels of eight columns */
#if defined(__AVX512F__)
typedef __m512 vec;
enum { LANES = 16, TILE_ROWS = 12, TILE_PARTS = 2, TILE_PANELS = 4 };
#define VLOAD(p) _mm512_loadu_ps(p)
#define VSTORE(p, v) _mm512_storeu_ps(p, v)
#define VALL(x) _mm512_set1_ps(x)
#define VADD(a, b) _mm512_add_ps(a, b)
#define VMADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define VMAX(a, b) _mm512_max_ps(a, b)
#define VMIN(a, b) _mm512_min_ps(a, b)
#define WEIGHTS(panel, j, at)                                                                                     \
  _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_castps_pd(_mm256_loadu_ps(panel[2 * (j)] + (at)))), \
                                      _mm256_castps_pd(_mm256_loadu_ps(panel[2 * (j) + 1] + (at))), 1))
#elif defined(__AVX2__) && defined(__FMA__)
typedef __m256 vec;
enum { LANES = 8, TILE_ROWS = 6, TILE_PARTS = 2, TILE_PANELS = 2 };
#define VLOAD(p) _mm256_loadu_ps(p)
#define VSTORE(p, v) _mm256_storeu_ps(p, v)
#define VALL(x) _mm256_set1_ps(x)
#define VADD(a, b) _mm256_add_ps(a, b)
#define VMADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define VMAX(a, b) _mm256_max_ps(a, b)
#define VMIN(a, b) _mm256_min_ps(a, b)
#define WEIGHTS(panel, j, at) _mm256_loadu_ps(panel[j] + (at))
#elif defined(__SSE2__)
typedef __m128 vec;
enum { LANES = 4, TILE_ROWS = 4, TILE_PARTS = 2, TILE_PANELS = 1 };
#define VLOAD(p) _mm_loadu_ps(p)
#define VSTORE(p, v) _mm_storeu_ps(p, v)
#define VALL(x) _mm_set1_ps(x)
#define VADD(a, b) _mm_add_ps(a, b)
#define VMADD(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define VMAX(a, b) _mm_max_ps(a, b)
#define VMIN(a, b) _mm_min_ps(a, b)
#define WEIGHTS(panel, j, at) _mm_loadu_ps(panel[0] + (at) + 4 * (j))
#else
typedef float32x4_t vec;
enum { LANES = 4, TILE_ROWS = 6, TILE_PARTS = 4, TILE_PANELS = 2 };
#define VLOAD(p) vld1q_f32(p)
#define VSTORE(p, v) vst1q_f32(p, v)
#define VALL(x) vdupq_n_f32(x)
#define VADD(a, b) vaddq_f32(a, b)
#define VMADD(a, b, c) vfmaq_f32(c, a, b)
#define VMAX(a, b) vmaxq_f32(a, b)
#define VMIN(a, b) vminq_f32(a, b)
#define WEIGHTS(panel, j, at) vld1q_f32(panel[(j) / 2] + (at) + 4 * ((j) % 2))
#endif
#endif
)";

constexpr std::string_view kDenseTiles = R"(#ifdef VECTORS
/* rows times parts vectors of sums in registers; b: what they begin with, as long as a tile is wide */
TILE_INLINE void tile(const float *a, int a_stride, const float *const *panel, int depth, const float *b, const float *residual,
                      float *y, int y_stride, int width, float low, float high, const int rows, const int parts) {
  const vec least = VALL(low), most = VALL(high);
  vec s[TILE_ROWS][TILE_PARTS];
  int k = 0;
  UNROLL
  for (int i = 0; i < rows; i++) {
    UNROLL
    for (int j = 0; j < parts; j++) s[i][j] = VLOAD(b + j * LANES);
  }
  if (rows == 1) {
    /* sums of odd depths apart: each would wait for the one before */
    vec t[TILE_PARTS];
    UNROLL
    for (int j = 0; j < parts; j++) t[j] = VALL(0.0f);
    for (; k + 2 <= depth; k += 2) {
      const vec v = VALL(a[k]), u = VALL(a[k + 1]);
      UNROLL
      for (int j = 0; j < parts; j++) {
        s[0][j] = VMADD(v, WEIGHTS(panel, j, k * 8), s[0][j]);
        t[j] = VMADD(u, WEIGHTS(panel, j, k * 8 + 8), t[j]);
      }
    }
    UNROLL
    for (int j = 0; j < parts; j++) s[0][j] = VADD(s[0][j], t[j]);
  }
  for (; k < depth; k++) {
    vec u[TILE_PARTS];
    UNROLL
    for (int j = 0; j < parts; j++) u[j] = WEIGHTS(panel, j, k * 8);
    UNROLL
    for (int i = 0; i < rows; i++) {
      const vec v = VALL(a[i * a_stride + k]);
      UNROLL
      for (int j = 0; j < parts; j++) s[i][j] = VMADD(v, u[j], s[i][j]);
    }
  }
  if (width >= parts * LANES) {
    UNROLL
    for (int i = 0; i < rows; i++) {
      UNROLL
      for (int j = 0; j < parts; j++) {
        vec v = s[i][j];
        if (residual) v = VADD(v, VLOAD(residual + i * y_stride + j * LANES));
        VSTORE(y + i * y_stride + j * LANES, VMIN(most, VMAX(least, v)));
      }
    }
  } else {
    float all[TILE_ROWS][TILE_PARTS * LANES] = {{0}};
    UNROLL
    for (int i = 0; i < rows; i++) {
      UNROLL
      for (int j = 0; j < parts; j++) VSTORE(&all[i][j * LANES], s[i][j]);
    }
    for (int i = 0; i < rows; i++)
      for (int n = 0; n < width && n < parts * LANES; n++) {
        float v = all[i][n];
        if (residual) v += residual[i * y_stride + n];
        y[i * y_stride + n] = v < low ? low : v > high ? high : v;
      }
  }
}
TILE_INLINE void tiles(const float *a, int a_stride, const float *const *panel, int depth, const float *b, const float *residual,
                       float *y, int y_stride, int width, float low, float high, int rows, const int parts) {
#define TILES(count)                                                                                                   \
  for (; rows >= (count); rows -= (count), a += (count) * a_stride, y += (count) * y_stride) {                         \
    tile(a, a_stride, panel, depth, b, residual, y, y_stride, width, low, high, (count), parts);                       \
    if (residual) residual += (count) * y_stride;                                                                      \
  }
  TILES(TILE_ROWS)
  TILES(TILE_ROWS / 3 + 1)
  TILES(1)
#undef TILES
}
#endif
)";

constexpr std::string_view kDepthwiseRow = R"(#ifdef VECTORS
/* one row of results; rows of the input that are not there are NULL */
TILE_INLINE void depthwise_row(const float *const *row, const float *w, const float *bias, float *y, int channels, int width, int ow,
                               int kh, int kw, int sw, int dw, int left, float low, float high) {
  const vec least = VALL(low), most = VALL(high);
  for (int p = 0; p < ow;) {
    const int v0 = p * sw - left, next = sw * channels;
    const int four = p + 4 <= ow && v0 >= 0 && v0 + 3 * sw + (kw - 1) * dw < width;
    const int j0 = v0 < 0 ? (-v0 + dw - 1) / dw : 0, there = v0 < width ? (width - v0 + dw - 1) / dw : 0;
    const int j1 = there < kw ? there : kw;
    float *const to = y + p * channels;
    int c = 0;
    while (c < channels) {
#if defined(__AVX512F__)
      const __mmask16 some = (__mmask16)(channels - c < LANES ? (1u << (channels - c)) - 1u : 0xffffu);
#define LOAD_SOME(p) _mm512_maskz_loadu_ps(some, p)
#define STORE_SOME(p, v) _mm512_mask_storeu_ps(p, some, v)
#else
#define LOAD_SOME(p) VLOAD(p)
#define STORE_SOME(p, v) VSTORE(p, v)
      if (c + LANES > channels) {
        if (channels < LANES) break;
        c = channels - LANES; /* some are made twice */
      }
#endif
      {
        const vec b = bias ? LOAD_SOME(bias + c) : VALL(0.0f);
        vec s0 = b, s1 = b, s2 = b, s3 = b;
        for (int i = 0; i < kh; i++) {
          const float *f = row[i], *g = w + (i * kw + j0) * channels + c;
          if (!f) continue;
          f += (v0 + j0 * dw) * channels + c;
          if (four) {
            for (int j = 0; j < kw; j++, f += dw * channels, g += channels) {
              const vec u = LOAD_SOME(g);
              s0 = VMADD(LOAD_SOME(f), u, s0);
              s1 = VMADD(LOAD_SOME(f + next), u, s1);
              s2 = VMADD(LOAD_SOME(f + 2 * next), u, s2);
              s3 = VMADD(LOAD_SOME(f + 3 * next), u, s3);
            }
          } else {
            for (int j = j0; j < j1; j++, f += dw * channels, g += channels) s0 = VMADD(LOAD_SOME(f), LOAD_SOME(g), s0);
          }
        }
        STORE_SOME(to + c, VMIN(most, VMAX(least, s0)));
        if (four) {
          STORE_SOME(to + channels + c, VMIN(most, VMAX(least, s1)));
          STORE_SOME(to + 2 * channels + c, VMIN(most, VMAX(least, s2)));
          STORE_SOME(to + 3 * channels + c, VMIN(most, VMAX(least, s3)));
        }
      }
      c += LANES;
#undef LOAD_SOME
#undef STORE_SOME
    }
    for (; c < channels; c++)
      for (int q = 0; q < (four ? 4 : 1); q++) {
        float s = bias ? bias[c] : 0.0f;
        for (int i = 0; i < kh; i++)
          for (int j = j0; row[i] && j < j1; j++)
            s = MADD(row[i][(v0 + q * sw + j * dw) * channels + c], w[(i * kw + j) * channels + c], s);
        to[q * channels + c] = s < low ? low : s > high ? high : s;
      }
    p += four ? 4 : 1;
  }
}
#endif
)";

}  // namespace

const std::vector<Helper>& VectorHelpers() {
  static const std::vector<Helper> helpers = {
      {"madd", kVectors},
      {"dense_tiles", kDenseTiles, {"madd"}},
      {"depthwise_row", kDepthwiseRow, {"madd"}},
  };
  return helpers;
}

}  // namespace ferry::c

// Functions that several steps call: printed once, when a step uses them.
#include "convert/c/step_writer.h"

namespace ferry::c {
namespace {

const std::vector<Helper>& Helpers() {
  static const std::vector<Helper> helpers = {
      {"half_get", R"(static float half_get(uint16_t h) {
  const uint32_t s = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, f = h & 1023u;
  uint32_t b;
  float r = (float)f * 5.9604644775390625e-08f;
  memcpy(&b, &r, 4);
  if (e == 31) b = 0x7f800000u | (f << 13);
  else if (e > 0) b = ((e + 112) << 23) | (f << 13);
  b |= s;
  memcpy(&r, &b, 4);
  return r;
}
)"},
      {"half_put", R"(static uint16_t half_put(float v) {
  uint32_t b, s, a;
  memcpy(&b, &v, 4);
  s = (b >> 16) & 0x8000u;
  a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(s | 0x7e00u);
  if (a >= 0x47800000u) return (uint16_t)(s | 0x7c00u);
  if (a < 0x38800000u) return (uint16_t)(s | (uint32_t)rintf(fabsf(v) * 16777216.0f));
  a += 0xfffu + ((a >> 13) & 1u);
  return (uint16_t)(s | ((a - 0x38000000u) >> 13));
}
)"},
      {"bfloat_get", R"(static float bfloat_get(uint16_t h) {
  const uint32_t b = (uint32_t)h << 16;
  float r;
  memcpy(&r, &b, 4);
  return r;
}
)"},
      {"bfloat_put", R"(static uint16_t bfloat_put(float v) {
  uint32_t b;
  memcpy(&b, &v, 4);
  if (v != v) return (uint16_t)((b >> 16) | 0x40u);
  return (uint16_t)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}
)"},
      {"small_get", R"(static float small_get(unsigned v, int mantissa, int bias) {
  const unsigned f = v & ((1u << mantissa) - 1u), e = (v & 0x7fu) >> mantissa;
  const float r = e ? ldexpf((float)(f + (1u << mantissa)), (int)e - bias - mantissa) : ldexpf((float)f, 1 - bias - mantissa);
  return v & 0x80u ? -r : r;
}
)"},
      {"small_put", R"(/* overflow: the code for what is too large */
static uint8_t small_put(float v, int mantissa, int bias, float largest, unsigned nan, unsigned overflow, unsigned infinite) {
  const unsigned sign = signbit(v) ? 0x80u : 0u;
  float a = fabsf(v), r;
  int e;
  if (v != v) return (uint8_t)(nan == 0x80u ? nan : nan | sign);
  if (isinf(v)) return (uint8_t)(infinite == 0x80u ? infinite : infinite | sign);
  (void)frexpf(a, &e);
  e -= 1;
  if (e < 1 - bias) e = 1 - bias;
  r = rintf(ldexpf(a, mantissa - e));
  if (ldexpf(r, e - mantissa) > largest) return (uint8_t)(overflow == 0x80u ? overflow : overflow | sign);
  if (r == 0.0f) return (uint8_t)(nan == 0x80u ? 0u : sign);
  if (r < (float)(1 << mantissa)) return (uint8_t)((unsigned)r | sign);
  return (uint8_t)((((unsigned)(e + bias) << mantissa) + (unsigned)r - (1u << mantissa)) | sign);
}
)"},
      {"e4m3_get",
       "static float e4m3_get(uint8_t v) {\n  return (v & 0x7fu) == 0x7fu ? NAN : small_get(v, 3, 7);\n}\n",
       {"small_get"}},
      {"e4m3_put",
       "static uint8_t e4m3_put(float v) {\n  return small_put(v, 3, 7, 448.0f, 0x7fu, 0x7eu, 0x7eu);\n}\n",
       {"small_put"}},
      {"e4m3_raw",
       "static uint8_t e4m3_raw(float v) {\n  return small_put(v, 3, 7, 448.0f, 0x7fu, 0x7fu, 0x7fu);\n}\n",
       {"small_put"}},
      {"e4m3z_get",
       "static float e4m3z_get(uint8_t v) {\n  return v == 0x80u ? NAN : small_get(v, 3, 8);\n}\n",
       {"small_get"}},
      {"e4m3z_put",
       "static uint8_t e4m3z_put(float v) {\n  return small_put(v, 3, 8, 240.0f, 0x80u, 0x7fu, 0x7fu);\n}\n",
       {"small_put"}},
      {"e4m3z_raw",
       "static uint8_t e4m3z_raw(float v) {\n  return small_put(v, 3, 8, 240.0f, 0x80u, 0x80u, 0x80u);\n}\n",
       {"small_put"}},
      {"e5m2_get",
       "static float e5m2_get(uint8_t v) {\n  const unsigned a = v & 0x7fu;\n  if (a > 0x7cu) return NAN;\n  if (a == "
       "0x7cu) return v & 0x80u ? "
       "-INFINITY : INFINITY;\n  return small_get(v, 2, 15);\n}\n",
       {"small_get"}},
      {"e5m2_put",
       "static uint8_t e5m2_put(float v) {\n  return small_put(v, 2, 15, 57344.0f, 0x7eu, 0x7bu, 0x7bu);\n}\n",
       {"small_put"}},
      {"e5m2_raw",
       "static uint8_t e5m2_raw(float v) {\n  return small_put(v, 2, 15, 57344.0f, 0x7eu, 0x7cu, 0x7cu);\n}\n",
       {"small_put"}},
      {"e5m2z_get",
       "static float e5m2z_get(uint8_t v) {\n  return v == 0x80u ? NAN : small_get(v, 2, 16);\n}\n",
       {"small_get"}},
      {"e5m2z_put",
       "static uint8_t e5m2z_put(float v) {\n  return small_put(v, 2, 16, 57344.0f, 0x80u, 0x7fu, 0x7fu);\n}\n",
       {"small_put"}},
      {"e5m2z_raw",
       "static uint8_t e5m2z_raw(float v) {\n  return small_put(v, 2, 16, 57344.0f, 0x80u, 0x80u, 0x80u);\n}\n",
       {"small_put"}},
      {"e8m0_get", "static float e8m0_get(uint8_t v) {\n  return v == 255 ? NAN : ldexpf(1.0f, (int)v - 127);\n}\n"},
      {"e8m0_round", R"(/* mode: 0 up, 1 down, 2 nearest */
static uint8_t e8m0_round(int mode, int saturate, float v) {
  uint32_t bits, exponent, rest;
  int up = 0;
  memcpy(&bits, &v, 4);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return 255;
  if (bits == 0x7f800000u) return saturate ? 254 : 255;
  if (bits < 0x400000u) return saturate ? 0 : 255;
  exponent = bits >> 23;
  rest = bits & 0x7fffffu;
  if (mode == 0) up = exponent == 0 ? rest > 0x400000u : rest != 0;
  if (mode == 2) up = exponent == 0 ? rest > 0x600000u : rest > 0x400000u || (rest == 0x400000u && (exponent & 1u) != 0);
  exponent += (uint32_t)up;
  return (uint8_t)(exponent > 254 ? (saturate ? 254 : 255) : exponent);
}
)"},
      {"e8m0_put", "static uint8_t e8m0_put(float v) {\n  return e8m0_round(0, 1, v);\n}\n", {"e8m0_round"}},
      {"uint4_get",
       "static uint8_t uint4_get(const uint8_t *p, int i) {\n  return (uint8_t)((p[i / 2] >> (4 * (i % 2))) & "
       "15);\n}\n"},
      {"int4_get",
       "static int8_t int4_get(const uint8_t *p, int i) {\n  const int v = (p[i / 2] >> (4 * (i % 2))) & 15;\n  return "
       "(int8_t)(v > 7 ? v - 16 : v);\n}\n"},
      {"uint2_get",
       "static uint8_t uint2_get(const uint8_t *p, int i) {\n  return (uint8_t)((p[i / 4] >> (2 * (i % 4))) & "
       "3);\n}\n"},
      {"int2_get",
       "static int8_t int2_get(const uint8_t *p, int i) {\n  const int v = (p[i / 4] >> (2 * (i % 4))) & 3;\n  return "
       "(int8_t)(v > 1 ? v - 4 : v);\n}\n"},
      {"nibble_put",
       "/* in order: the first half of a byte clears the other */\nstatic void nibble_put(uint8_t *p, int i, uint8_t "
       "v) {\n  if (i % 2) p[i / 2] = (uint8_t)((p[i / 2] & 15) | (v << 4));\n  else p[i / 2] = "
       "(uint8_t)(v & 15);\n}\n"},
      {"crumb_put",
       "/* in order: the first part of a byte clears the others */\nstatic void crumb_put(uint8_t *p, int i, uint8_t "
       "v) {\n  const int s = 2 * (i % 4);\n  if (s) p[i / 4] = (uint8_t)((p[i / 4] & ((1 << s) - 1)) | ((v & 3) << "
       "s));\n  else "
       "p[i / 4] = (uint8_t)(v & 3);\n}\n"},
      {"float4_get",
       "static float float4_get(const uint8_t *p, int i) {\n  static const float t[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, "
       "3.0f, 4.0f, 6.0f};\n  const int v = (p[i / 2] >> (4 * (i % 2))) & 15;\n  return v > 7 ? -t[v & 7] : "
       "t[v];\n}\n"},
      {"float4_put",
       R"(static uint8_t float4_put(float v) {
  static const float limit[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  const float a = fabsf(v);
  int k = 0;
  while (k < 7 && (a > limit[k] || (k % 2 == 1 && a == limit[k]))) k++;
  return (uint8_t)(v != v ? 0 : k | (signbit(v) ? 8 : 0));
}
)",
       {"nibble_put"}},
      {"mod_real", R"(static double mod_real(double a, double b) {
  const double r = fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}
)"},
      {"reflect", R"(/* folded back and forth between two borders */
static double reflect(double x, double low, double high) {
  const double range = high - low, beyond = x < low ? low - x : x - high;
  double times, rest;
  if (!(range > 0)) return low;
  if (!(x < low) && !(x > high)) return x;
  times = floor(beyond / range);
  rest = beyond - times * range;
  return (x < low) == (fmod(times, 2.0) == 0.0) ? low + rest : high - rest;
}
)"},
      {"mod_int",
       "static int64_t mod_int(int64_t a, int64_t b) {\n  int64_t r;\n  if (b == 0 || b == -1) return 0;\n  r = a % "
       "b;\n  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;\n}\n"},
      {"pow_int",
       "static int64_t pow_int(int64_t base, int64_t e) {\n  uint64_t r = 1, b = (uint64_t)base;\n  if (e < 0) return "
       "base == 1 ? 1 : base == -1 ? (e % 2 ? -1 : 1) : 0;\n  for (; e > 0; e >>= 1, b *= b)\n    if (e & 1) r *= "
       "b;\n  return (int64_t)r;\n}\n"},
      {"to_int32",
       "/* what does not fit becomes the smallest, as x86 has it */\nstatic int32_t to_int32(double v) {\n  return v > "
       "-2147483649.0 && v < 2147483648.0 ? (int32_t)v : INT32_MIN;\n}\n"},
      {"to_int64",
       "/* what does not fit becomes the smallest, as x86 has it */\nstatic int64_t to_int64(double v) {\n  return v "
       ">= -9223372036854775808.0 && v < 9223372036854775808.0 ? (int64_t)v : INT64_MIN;\n}\n"},
      {"to_uint64",
       "static uint64_t to_uint64(double v) {\n  return v >= 9223372036854775808.0 && v < 18446744073709551616.0 ? "
       "(uint64_t)v : (uint64_t)to_int64(v);\n}\n",
       {"to_int64"}},
  };
  return helpers;
}

}  // namespace

const std::vector<Helper>& QuantizedHelpers();
const std::vector<Helper>& FloatHelpers();
const std::vector<Helper>& VectorHelpers();
const std::vector<Helper>& PanelHelpers();

const Helper& FindHelper(std::string_view name) {
  for (const std::vector<Helper>* list :
       {&Helpers(), &QuantizedHelpers(), &FloatHelpers(), &VectorHelpers(), &PanelHelpers()})
    for (const Helper& helper : *list)
      if (helper.name == name) return helper;
  Fail(ErrorCode::kInternal, "there is no C helper '", name, "'");
}

}  // namespace ferry::c

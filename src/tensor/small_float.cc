#include "tensor/small_float.h"

#include <cmath>

namespace ferry {
namespace {

// One description serves every sign-exponent-mantissa format up to 16 bits.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint32_t largest_finite;  // code without sign
  uint32_t overflow_code;   // what |value| beyond the range becomes: infinity, or NaN where there is none
  uint32_t nan_code;
  bool negative_zero;  // the "fnuz" types have none: the code of -0 is their NaN
};

constexpr Format kHalf{5, 10, 15, 0x7bff, 0x7c00, 0x7e00, true};
constexpr Format kE4M3FN{4, 3, 7, 0x7e, 0x7f, 0x7f, true};
constexpr Format kE4M3FNUZ{4, 3, 8, 0x7f, 0x80, 0x80, false};
constexpr Format kE5M2{5, 2, 15, 0x7b, 0x7c, 0x7f, true};
constexpr Format kE5M2FNUZ{5, 2, 16, 0x7f, 0x80, 0x80, false};
constexpr Format kE2M1{2, 1, 1, 0x7, 0x7, 0x7, true};
constexpr Format kE2M3{2, 3, 1, 0x1f, 0x1f, 0x1f, true};
constexpr Format kE3M2{3, 2, 3, 0x1f, 0x1f, 0x1f, true};

uint32_t SignBit(const Format& f) { return 1u << (f.exponent_bits + f.mantissa_bits); }

uint32_t Encode(const Format& f, float value, Overflow overflow) {
  uint32_t bits = FloatBits(value);
  uint32_t sign = (bits >> 31) ? SignBit(f) : 0;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return f.negative_zero ? (f.nan_code | sign) : f.nan_code;

  auto beyond = [&]() -> uint32_t {
    if (overflow == Overflow::kSaturate) return f.largest_finite | sign;
    return f.negative_zero ? (f.overflow_code | sign) : f.overflow_code;
  };
  if (magnitude == 0x7f800000u) return beyond();

  int exponent = static_cast<int>(magnitude >> 23) - 127;
  uint32_t mantissa = magnitude & 0x7fffffu;
  if (magnitude >> 23 == 0) {  // far below every small format's subnormals
    return f.negative_zero ? sign : 0;
  }
  mantissa |= 0x800000u;
  int target = exponent + f.bias;
  int shift = 23 - f.mantissa_bits;
  if (target < 1) {  // subnormal in the target
    shift += 1 - target;
    target = 0;
  }
  uint32_t code;
  if (shift > 25) {
    code = 0;
  } else {
    uint32_t kept = mantissa >> shift;
    uint32_t rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    if (rest > half || (rest == half && (kept & 1))) ++kept;
    // The hidden bit adds one to the exponent field; a carry out of the mantissa adds another, as it should.
    code = target == 0 ? kept : ((static_cast<uint32_t>(target) - 1) << f.mantissa_bits) + kept;
  }
  if (code > f.largest_finite) return beyond();
  if (code == 0 && !f.negative_zero) return 0;
  return code | sign;
}

float Decode(const Format& f, uint32_t code) {
  uint32_t sign_bit = SignBit(f);
  if (!f.negative_zero && code == f.nan_code) return std::nanf("");
  float sign = (code & sign_bit) ? -1.0f : 1.0f;
  uint32_t magnitude = code & (sign_bit - 1);
  if (magnitude > f.largest_finite) {
    if (f.overflow_code != f.nan_code && magnitude == f.overflow_code) return sign * INFINITY;
    return std::copysign(std::nanf(""), sign);
  }
  uint32_t exponent = magnitude >> f.mantissa_bits;
  uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits);
  return sign * std::ldexp(static_cast<float>(mantissa | (1u << f.mantissa_bits)),
                           static_cast<int>(exponent) - f.bias - f.mantissa_bits);
}

}  // namespace

float ToFloat(Float16 value) {
  uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  uint32_t exponent = (value.bits >> 10) & 0x1fu;
  uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1f) return FloatFromBits(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return FloatFromBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return FloatFromBits(sign | FloatBits(magnitude));
}

Float16 ToFloat16(float value) {
  constexpr uint32_t kBeyond = (127 + 16) << 23, kLeastNormal = (127 - 14) << 23;
  constexpr uint32_t kAligning = ((127 - 15) + (23 - 10) + 1) << 23;  // its last bit is that of a subnormal half
  const uint32_t bits = FloatBits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  uint32_t code;
  if (magnitude >= kBeyond)
    code = magnitude > 0x7f800000u ? kHalf.nan_code : kHalf.overflow_code;
  else if (magnitude < kLeastNormal)  // the addition rounds
    code = FloatBits(FloatFromBits(magnitude) + FloatFromBits(kAligning)) - kAligning;
  else  // halves to even; a carry goes into the exponent, as it should
    code = (magnitude - ((127u - 15) << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  return {static_cast<uint16_t>(code | sign)};
}

BFloat16 ToBFloat16(float value) {
  uint32_t bits = FloatBits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

float ToFloat(Float8E4M3FN value) { return Decode(kE4M3FN, value.bits); }
float ToFloat(Float8E4M3FNUZ value) { return Decode(kE4M3FNUZ, value.bits); }
float ToFloat(Float8E5M2 value) { return Decode(kE5M2, value.bits); }
float ToFloat(Float8E5M2FNUZ value) { return Decode(kE5M2FNUZ, value.bits); }
Float8E4M3FN ToFloat8E4M3FN(float value, Overflow overflow) {
  return {static_cast<uint8_t>(Encode(kE4M3FN, value, overflow))};
}
Float8E4M3FNUZ ToFloat8E4M3FNUZ(float value, Overflow overflow) {
  return {static_cast<uint8_t>(Encode(kE4M3FNUZ, value, overflow))};
}
Float8E5M2 ToFloat8E5M2(float value, Overflow overflow) {
  return {static_cast<uint8_t>(Encode(kE5M2, value, overflow))};
}
Float8E5M2FNUZ ToFloat8E5M2FNUZ(float value, Overflow overflow) {
  return {static_cast<uint8_t>(Encode(kE5M2FNUZ, value, overflow))};
}

static const Format& PackedFormat(DType type) {
  if (type == DType::kFloat6E2M3) return kE2M3;
  return type == DType::kFloat6E3M2 ? kE3M2 : kE2M1;
}

bool IsPackedFloat(DType type) {
  return type == DType::kFloat4E2M1 || type == DType::kFloat6E2M3 || type == DType::kFloat6E3M2;
}

float PackedFloatToFloat(DType type, uint8_t code) {
  const Format& format = PackedFormat(type);
  return Decode(format, code & (2 * SignBit(format) - 1));
}

uint8_t FloatToPackedFloat(DType type, float value) {
  const Format& format = PackedFormat(type);
  // ONNX leaves NaN open for these types; a zero of its sign disturbs sums the least.
  if (std::isnan(value)) return static_cast<uint8_t>(std::signbit(value) ? SignBit(format) : 0);
  return static_cast<uint8_t>(Encode(format, value, Overflow::kSaturate));
}

float ToFloat(Float8E8M0 value) {
  if (value.bits == 0xff) return std::nanf("");
  return std::ldexp(1.0f, static_cast<int>(value.bits) - 127);
}

Float8E8M0 ToFloat8E8M0(float value, ScaleRounding rounding, Overflow overflow) {
  uint32_t magnitude = FloatBits(value) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {0xff};
  if (magnitude == 0x7f800000u) return {static_cast<uint8_t>(overflow == Overflow::kSaturate ? 0xfe : 0xff)};
  if (magnitude < 0x400000u) return {static_cast<uint8_t>(overflow == Overflow::kSaturate ? 0x00 : 0xff)};
  uint32_t exponent = magnitude >> 23, mantissa = magnitude & 0x7fffffu;
  bool up = false;
  if (rounding == ScaleRounding::kUp) {
    // 2^-127 itself is a float subnormal with the top mantissa bit set.
    up = exponent == 0 ? mantissa > 0x400000u : mantissa != 0;
  } else if (rounding == ScaleRounding::kNearest) {
    up = exponent == 0 ? mantissa > 0x400000u + 0x200000u
                       : mantissa > 0x400000u || (mantissa == 0x400000u && (exponent & 1));
  }
  if (up) ++exponent;
  if (exponent > 0xfe) exponent = overflow == Overflow::kSaturate ? 0xfe : 0xff;
  return {static_cast<uint8_t>(exponent)};
}

}  // namespace ferry

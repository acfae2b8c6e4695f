// Conversions between float and the floats narrower than it. All round to nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace ferry {

inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float ToFloat(Float16 value);
Float16 ToFloat16(float value);

inline float ToFloat(BFloat16 value) { return FloatFromBits(uint32_t{value.bits} << 16); }
BFloat16 ToBFloat16(float value);

// How a value outside a type's finite range is stored: clamped to the largest finite value, or as the type's infinity
// (NaN where it has none), as ONNX's Cast writes it.
enum class Overflow : uint8_t { kSaturate, kSpecial };

float ToFloat(Float8E4M3FN value);
float ToFloat(Float8E4M3FNUZ value);
float ToFloat(Float8E5M2 value);
float ToFloat(Float8E5M2FNUZ value);
Float8E4M3FN ToFloat8E4M3FN(float value, Overflow overflow = Overflow::kSaturate);
Float8E4M3FNUZ ToFloat8E4M3FNUZ(float value, Overflow overflow = Overflow::kSaturate);
Float8E5M2 ToFloat8E5M2(float value, Overflow overflow = Overflow::kSaturate);
Float8E5M2FNUZ ToFloat8E5M2FNUZ(float value, Overflow overflow = Overflow::kSaturate);

// A power of two and nothing else: no sign, no zero. What is below the smallest power (2^-127) becomes it under
// kSaturate and NaN under kSpecial, as ONNX's Cast writes it.
enum class ScaleRounding : uint8_t { kUp, kDown, kNearest };
float ToFloat(Float8E8M0 value);
Float8E8M0 ToFloat8E8M0(float value, ScaleRounding rounding = ScaleRounding::kUp,
                        Overflow overflow = Overflow::kSaturate);

// float4e2m1, float6e2m3 and float6e3m2 have no storage type of their own; a code is the low bits of a byte. They have
// neither infinity nor NaN: what is beyond the range is clamped, NaN becomes zero.
bool IsPackedFloat(DType type);
float PackedFloatToFloat(DType type, uint8_t code);
uint8_t FloatToPackedFloat(DType type, float value);

// The widening and narrowing used by templates over storage types; float and double pass through.
inline float ToFloat(float value) { return value; }
template <class T>
T FromFloat(float value);
template <>
inline float FromFloat<float>(float value) {
  return value;
}
template <>
inline Float16 FromFloat<Float16>(float value) {
  return ToFloat16(value);
}
template <>
inline BFloat16 FromFloat<BFloat16>(float value) {
  return ToBFloat16(value);
}
template <>
inline Float8E4M3FN FromFloat<Float8E4M3FN>(float value) {
  return ToFloat8E4M3FN(value);
}
template <>
inline Float8E4M3FNUZ FromFloat<Float8E4M3FNUZ>(float value) {
  return ToFloat8E4M3FNUZ(value);
}
template <>
inline Float8E5M2 FromFloat<Float8E5M2>(float value) {
  return ToFloat8E5M2(value);
}
template <>
inline Float8E5M2FNUZ FromFloat<Float8E5M2FNUZ>(float value) {
  return ToFloat8E5M2FNUZ(value);
}
template <>
inline Float8E8M0 FromFloat<Float8E8M0>(float value) {
  return ToFloat8E8M0(value);
}

}  // namespace ferry

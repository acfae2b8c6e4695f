// Element types, numbered as ONNX's TensorProto.DataType so that no table stands between file and memory.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ferry {

enum class DType : uint8_t {
  kUndefined = 0,
  kFloat = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUInt4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUInt2 = 25,
  kInt2 = 26,
  kFloat6E2M3 = 27,
  kFloat6E3M2 = 28,
};
inline constexpr int kDTypeCount = 29;

// Storage types of the floats C++ lacks. They carry bits; conversions are in tensor/small_float.h.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Float8E4M3FN {
  uint8_t bits;
};
struct Float8E4M3FNUZ {
  uint8_t bits;
};
struct Float8E5M2 {
  uint8_t bits;
};
struct Float8E5M2FNUZ {
  uint8_t bits;
};
struct Float8E8M0 {
  uint8_t bits;
};

bool IsValidDType(int64_t number);      // a number from a file that names an element type
int BitWidth(DType type);               // 2, 4, 6, 8 … 128; 0 for strings and undefined
std::string_view Name(DType type);      // as ONNX writes it: "float", "int64", "float8e4m3fn"
DType DTypeFromName(std::string_view);  // kUndefined when unknown
inline std::string ToText(DType type) { return std::string(Name(type)); }

inline bool IsPacked(DType type) {
  int bits = BitWidth(type);
  return bits > 0 && bits < 8;
}
bool IsFloating(DType type);    // every real floating type, small ones included
bool IsSmallFloat(DType type);  // floating and narrower than float: computed through float
bool IsInteger(DType type);     // signed or unsigned, 2 to 64 bits; bool is not
bool IsSignedInteger(DType type);
bool IsComplex(DType type);

// The C++ type stored for an element type; types narrower than a byte have none of their own.
template <class T>
inline constexpr DType kDTypeOf = DType::kUndefined;
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat;
template <>
inline constexpr DType kDTypeOf<double> = DType::kDouble;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::kInt8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::kInt16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kInt64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kUInt8;
template <>
inline constexpr DType kDTypeOf<uint16_t> = DType::kUInt16;
template <>
inline constexpr DType kDTypeOf<uint32_t> = DType::kUInt32;
template <>
inline constexpr DType kDTypeOf<uint64_t> = DType::kUInt64;
template <>
inline constexpr DType kDTypeOf<bool> = DType::kBool;
template <>
inline constexpr DType kDTypeOf<std::string> = DType::kString;
template <>
inline constexpr DType kDTypeOf<Float16> = DType::kFloat16;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType kDTypeOf<Float8E4M3FN> = DType::kFloat8E4M3FN;
template <>
inline constexpr DType kDTypeOf<Float8E4M3FNUZ> = DType::kFloat8E4M3FNUZ;
template <>
inline constexpr DType kDTypeOf<Float8E5M2> = DType::kFloat8E5M2;
template <>
inline constexpr DType kDTypeOf<Float8E5M2FNUZ> = DType::kFloat8E5M2FNUZ;
template <>
inline constexpr DType kDTypeOf<Float8E8M0> = DType::kFloat8E8M0;
template <>
inline constexpr DType kDTypeOf<std::complex<float>> = DType::kComplex64;
template <>
inline constexpr DType kDTypeOf<std::complex<double>> = DType::kComplex128;

}  // namespace ferry

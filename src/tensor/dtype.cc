#include "tensor/dtype.h"

namespace ferry {
namespace {

enum class Kind : uint8_t { kNone, kFloat, kSigned, kUnsigned, kComplex, kOther };

struct Facts {
  std::string_view name;
  int bits;
  Kind kind;
};

constexpr Facts kFacts[kDTypeCount] = {
    {"undefined", 0, Kind::kNone},       {"float", 32, Kind::kFloat},     {"uint8", 8, Kind::kUnsigned},
    {"int8", 8, Kind::kSigned},          {"uint16", 16, Kind::kUnsigned}, {"int16", 16, Kind::kSigned},
    {"int32", 32, Kind::kSigned},        {"int64", 64, Kind::kSigned},    {"string", 0, Kind::kOther},
    {"bool", 8, Kind::kOther},           {"float16", 16, Kind::kFloat},   {"double", 64, Kind::kFloat},
    {"uint32", 32, Kind::kUnsigned},     {"uint64", 64, Kind::kUnsigned}, {"complex64", 64, Kind::kComplex},
    {"complex128", 128, Kind::kComplex}, {"bfloat16", 16, Kind::kFloat},  {"float8e4m3fn", 8, Kind::kFloat},
    {"float8e4m3fnuz", 8, Kind::kFloat}, {"float8e5m2", 8, Kind::kFloat}, {"float8e5m2fnuz", 8, Kind::kFloat},
    {"uint4", 4, Kind::kUnsigned},       {"int4", 4, Kind::kSigned},      {"float4e2m1", 4, Kind::kFloat},
    {"float8e8m0", 8, Kind::kFloat},     {"uint2", 2, Kind::kUnsigned},   {"int2", 2, Kind::kSigned},
    {"float6e2m3", 6, Kind::kFloat},     {"float6e3m2", 6, Kind::kFloat},
};

const Facts& FactsOf(DType type) {
  auto index = static_cast<size_t>(type);
  return kFacts[index < kDTypeCount ? index : 0];
}

}  // namespace

bool IsValidDType(int64_t number) { return number > 0 && number < kDTypeCount; }
int BitWidth(DType type) { return FactsOf(type).bits; }
std::string_view Name(DType type) { return FactsOf(type).name; }

DType DTypeFromName(std::string_view name) {
  for (int i = 1; i < kDTypeCount; ++i)
    if (kFacts[i].name == name) return static_cast<DType>(i);
  return DType::kUndefined;
}

bool IsFloating(DType type) { return FactsOf(type).kind == Kind::kFloat; }
bool IsSmallFloat(DType type) { return IsFloating(type) && BitWidth(type) < 32; }
bool IsSignedInteger(DType type) { return FactsOf(type).kind == Kind::kSigned; }
bool IsInteger(DType type) { return IsSignedInteger(type) || FactsOf(type).kind == Kind::kUnsigned; }
bool IsComplex(DType type) { return FactsOf(type).kind == Kind::kComplex; }

}  // namespace ferry

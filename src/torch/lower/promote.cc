#include "torch/lower/promote.h"

#include <algorithm>

#include "base/error.h"

namespace ferry::torch {
namespace {

enum class Kind { kNone, kBool, kInteger, kFloat, kComplex };

Kind KindOf(DType dtype) {
  if (dtype == DType::kUndefined) return Kind::kNone;
  if (dtype == DType::kBool) return Kind::kBool;
  if (IsComplex(dtype)) return Kind::kComplex;
  return IsFloating(dtype) ? Kind::kFloat : Kind::kInteger;
}

DType PromoteIntegers(DType a, DType b) {
  int wide = std::max(BitWidth(a), BitWidth(b));
  bool a_signed = IsSignedInteger(a), b_signed = IsSignedInteger(b);
  if (a_signed == b_signed) return BitWidth(a) == wide ? a : b;
  DType with_sign = a_signed ? a : b, without = a_signed ? b : a;
  if (BitWidth(with_sign) > BitWidth(without)) return with_sign;
  switch (BitWidth(without)) {
    case 8: return DType::kInt16;
    case 16: return DType::kInt32;
    case 32: return DType::kInt64;
    default: Fail(ErrorCode::kUnsupported, "PyTorch promotes ", a, " and ", b, " to no type");
  }
}

// The type a Python number has when nothing else decides.
DType DefaultType(const Scalar& scalar) {
  switch (scalar.kind()) {
    case Scalar::Kind::kBool: return DType::kBool;
    case Scalar::Kind::kInt: return DType::kInt64;
    case Scalar::Kind::kFloat: return DType::kFloat;
    case Scalar::Kind::kComplex: return DType::kComplex64;
  }
  return DType::kFloat;
}

DType PromoteKnown(DType a, DType b) {
  if (a == DType::kUndefined) return b;
  if (b == DType::kUndefined) return a;
  return PromoteTypes(a, b);
}

DType Combine(DType higher, DType lower) {
  Kind high = KindOf(higher), low = KindOf(lower);
  if (high == Kind::kComplex) return higher;
  if (high == Kind::kFloat) return low == Kind::kComplex ? ComplexType(higher) : higher;
  if (high == Kind::kBool || low == Kind::kFloat || low == Kind::kComplex) return PromoteKnown(higher, lower);
  return high == Kind::kNone ? lower : higher;
}

}  // namespace

DType RealType(DType dtype) {
  if (dtype == DType::kComplex64) return DType::kFloat;
  return dtype == DType::kComplex128 ? DType::kDouble : dtype;
}

DType ComplexType(DType dtype) {
  if (IsComplex(dtype)) return dtype;
  return dtype == DType::kDouble ? DType::kComplex128 : DType::kComplex64;
}

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  Kind ka = KindOf(a), kb = KindOf(b);
  if (ka == Kind::kInteger && kb == Kind::kInteger) return PromoteIntegers(a, b);
  if (ka == Kind::kComplex || kb == Kind::kComplex) {
    bool wide = RealType(a) == DType::kDouble || RealType(b) == DType::kDouble;
    return wide ? DType::kComplex128 : DType::kComplex64;
  }
  if (ka != kb) return ka > kb ? a : b;
  // Two floats: the wider; of float16 and bfloat16 neither holds the other.
  if (BitWidth(a) == BitWidth(b)) return DType::kFloat;
  return BitWidth(a) > BitWidth(b) ? a : b;
}

DType ResultType(const std::vector<TensorOrNumber>& values) {
  DType with_dims = DType::kUndefined, without_dims = DType::kUndefined, numbers = DType::kUndefined;
  for (const TensorOrNumber& value : values) {
    if (const Scalar* scalar = std::get_if<Scalar>(&value)) {
      numbers = PromoteKnown(numbers, DefaultType(*scalar));
      continue;
    }
    const Operand& tensor = std::get<Operand>(value);
    DType& level = tensor.has_rank() && tensor.rank() == 0 ? without_dims : with_dims;
    level = PromoteKnown(level, tensor.dtype());
  }
  return Combine(with_dims, Combine(without_dims, numbers));
}

}  // namespace ferry::torch

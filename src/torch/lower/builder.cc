#include "torch/lower/builder.h"

#include <cmath>

#include "base/error.h"
#include "tensor/small_float.h"

namespace ferry::torch {
namespace {

template <class T>
Tensor IntegerScalar(int64_t value) {
  auto stored = static_cast<T>(value);
  bool same = static_cast<int64_t>(stored) == value && (std::is_signed_v<T> || value >= 0);
  if (!same) Fail(ErrorCode::kUnsupported, "the number ", value, " does not fit in ", kDTypeOf<T>);
  return Tensor::Scalar<T>(stored);
}

Tensor MakeInteger(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::kInt64: return IntegerScalar<int64_t>(value);
    case DType::kInt32: return IntegerScalar<int32_t>(value);
    case DType::kInt16: return IntegerScalar<int16_t>(value);
    case DType::kInt8: return IntegerScalar<int8_t>(value);
    case DType::kUInt8: return IntegerScalar<uint8_t>(value);
    case DType::kUInt16: return IntegerScalar<uint16_t>(value);
    case DType::kUInt32: return IntegerScalar<uint32_t>(value);
    case DType::kUInt64: return IntegerScalar<uint64_t>(value);
    default: return Tensor::Scalar<bool>(value != 0);
  }
}

Tensor MakeFloating(double value, DType dtype) {
  switch (dtype) {
    case DType::kFloat: return Tensor::Scalar<float>(static_cast<float>(value));
    case DType::kDouble: return Tensor::Scalar<double>(value);
    case DType::kFloat16: return Tensor::Scalar<Float16>(ToFloat16(static_cast<float>(value)));
    case DType::kBFloat16: return Tensor::Scalar<BFloat16>(ToBFloat16(static_cast<float>(value)));
    default: Fail(ErrorCode::kUnsupported, "a constant of type ", dtype, " is not supported");
  }
}

}  // namespace

Operand Builder::Number(double value, DType dtype) {
  if (IsComplex(dtype)) {
    DType part = dtype == DType::kComplex128 ? DType::kDouble : DType::kFloat;
    return MakeComplex(Number(value, part), Number(0, part));
  }
  if (dtype == DType::kBool) return Constant(Tensor::Scalar<bool>(value != 0));
  if (!IsInteger(dtype)) return Constant(MakeFloating(value, dtype));
  return Constant(MakeInteger(Scalar(value).AsInt(), dtype));
}

Operand Builder::Of(const Scalar& scalar, DType dtype) {
  if (!scalar.is_known()) return Cast(AsRank0(scalar.computed()), dtype);
  if (IsComplex(dtype)) {
    DType part = dtype == DType::kComplex128 ? DType::kDouble : DType::kFloat;
    std::complex<double> value = scalar.AsComplex();
    return MakeComplex(Number(value.real(), part), Number(value.imag(), part));
  }
  if (dtype == DType::kBool) return Constant(Tensor::Scalar<bool>(scalar.AsBool()));
  if (IsInteger(dtype) && scalar.is_integral()) return Constant(MakeInteger(scalar.AsInt(), dtype));
  return Number(scalar.AsDouble(), dtype);
}

Operand Builder::Widened(std::string_view op_type, const Operands& inputs, const Attributes& attributes) {
  DType dtype = inputs[0].type().dtype;
  if (dtype == DType::kUndefined || Takes(op_type, dtype)) return Emit(op_type, inputs, attributes);
  DType wider = DType::kUndefined;
  bool integer = IsInteger(dtype) || dtype == DType::kBool;
  for (DType candidate : {DType::kInt32, DType::kInt64, DType::kFloat, DType::kDouble})
    if (wider == DType::kUndefined && (integer || IsFloating(candidate)) && Takes(op_type, candidate) &&
        BitWidth(candidate) >= BitWidth(dtype))
      wider = candidate;
  if (wider == DType::kUndefined) return Emit(op_type, inputs, attributes);  // which says that it cannot be
  Operands cast;
  for (const Operand& input : inputs) cast.push_back(input ? Cast(input, wider) : input);
  return Cast(Emit(op_type, cast, attributes), dtype);
}

Operand Builder::FloorDivide(const Operand& a, const Operand& b) {
  if (!IsInteger(a.dtype())) Fail(ErrorCode::kInternal, "FloorDivide is for integers");
  // Without the rest, which is subtracted, small types leave their range.
  if (BitWidth(a.dtype()) < 32) return Cast(FloorDivide(Cast(a, DType::kInt32), Cast(b, DType::kInt32)), a.dtype());
  // Mod has the sign of the divisor, which makes the rest an exact division.
  return Div(Sub(a, Emit("Mod", {a, b})), b);
}

// ONNX compares no bools, and old opsets compare few integers for equality.
static Operand Comparable(Builder& b, const Operand& x, std::string_view op_type) {
  if (x.dtype() == DType::kBool && op_type == "Equal") return x;
  if (b.Takes(op_type, x.dtype())) return x;
  return b.Cast(x, x.dtype() == DType::kUInt64 || x.dtype() == DType::kUInt32 ? DType::kInt64 : DType::kInt32);
}

Operand Builder::Equal(const Operand& a, const Operand& b) {
  return Emit("Equal", {Comparable(*this, a, "Equal"), Comparable(*this, b, "Equal")});
}
Operand Builder::Less(const Operand& a, const Operand& b) {
  return Emit("Less", {Comparable(*this, a, "Less"), Comparable(*this, b, "Less")});
}
Operand Builder::LessOrEqual(const Operand& a, const Operand& b) {
  Operand x = Comparable(*this, a, "Less"), y = Comparable(*this, b, "Less");
  if (Has("LessOrEqual")) return Emit("LessOrEqual", {x, y});
  return Or(Emit("Less", {x, y}), Emit("Equal", {x, y}));
}

Operand Builder::Where(const Operand& condition, const Operand& yes, const Operand& no) {
  if (!yes.is_complex()) return Emit("Where", {condition, yes, no});
  return Emit("Where", {Unsqueeze(condition, {-1}), yes.AsPairs(), no.AsPairs()}).AsComplex();
}

Operand Builder::IsNaN(const Operand& x) {
  if (!IsFloating(x.dtype())) return Fill(0, DType::kBool, ShapeOf(x));
  return Emit("IsNaN", {x});
}

Operand Builder::Cast(const Operand& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (x.is_complex()) {
    if (!IsComplex(dtype)) return Cast(Real(x), dtype);
    return Emit("Cast", {x.AsPairs()},
                {{"to", static_cast<int64_t>(dtype == DType::kComplex128 ? DType::kDouble : DType::kFloat)}})
        .AsComplex();
  }
  if (IsComplex(dtype)) {
    Operand real = Cast(x, dtype == DType::kComplex128 ? DType::kDouble : DType::kFloat);
    return MakeComplex(real, Fill(0, real.dtype(), ShapeOf(real)));
  }
  return Emit("Cast", {x}, {{"to", static_cast<int64_t>(dtype)}});
}

Operand Builder::Reduce(std::string_view op_type, const Operand& x, const std::vector<int64_t>& axes, bool keep_dims) {
  if (x.is_complex()) Fail(ErrorCode::kInternal, "complex numbers are reduced by their parts");
  std::vector<int64_t> normalized;
  if (x.has_rank() && x.rank() > 0)
    for (int64_t axis : axes) normalized.push_back(static_cast<int64_t>(x.Axis(axis)));
  Operand axes_input = normalized.empty() ? Operand() : Ints(normalized);
  return Emit(op_type, {x, axes_input}, {{"keepdims", int64_t{keep_dims}}});
}

Operand Builder::Real(const Operand& complex) { return Gather(complex.AsPairs(), Int(0), -1); }
Operand Builder::Imaginary(const Operand& complex) { return Gather(complex.AsPairs(), Int(1), -1); }
Operand Builder::MakeComplex(const Operand& real, const Operand& imaginary) {
  return Concat({Unsqueeze(real, {-1}), Unsqueeze(imaginary, {-1})}, -1).AsComplex();
}

}  // namespace ferry::torch

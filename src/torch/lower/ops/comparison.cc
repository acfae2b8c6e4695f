// Comparisons, logic and bits.
#include <limits>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Equal real and equal imaginary parts.
Operand EqualOf(Builder& b, const Operand& x, const Operand& y) {
  if (!x.is_complex()) return b.Equal(x, y);
  return b.And(b.Equal(b.Real(x), b.Real(y)), b.Equal(b.Imaginary(x), b.Imaginary(y)));
}
Result Eq(Call& c) {
  Operands o = c.Promoted({0, 1});
  return EqualOf(c.b, o[0], o[1]);
}
Result Ne(Call& c) {
  Operands o = c.Promoted({0, 1});
  return c.b.Not(EqualOf(c.b, o[0], o[1]));
}
Result Lt(Call& c) {
  Operands o = c.Promoted({0, 1});
  return c.b.Less(o[0], o[1]);
}
Result Le(Call& c) {
  Operands o = c.Promoted({0, 1});
  return c.b.LessOrEqual(o[0], o[1]);
}
Result Gt(Call& c) {
  Operands o = c.Promoted({0, 1});
  return c.b.Greater(o[0], o[1]);
}
Result Ge(Call& c) {
  Operands o = c.Promoted({0, 1});
  return c.b.GreaterOrEqual(o[0], o[1]);
}

Operand Truth(Call& c, size_t i) { return c.As(c.Any(i), DType::kBool); }
Result LogicalAnd(Call& c) { return c.b.And(Truth(c, 0), Truth(c, 1)); }
Result LogicalOr(Call& c) { return c.b.Or(Truth(c, 0), Truth(c, 1)); }
Result LogicalXor(Call& c) { return c.b.Xor(Truth(c, 0), Truth(c, 1)); }
Result LogicalNot(Call& c) { return c.b.Not(Truth(c, 0)); }

Result BitwiseAnd(Call& c) {
  Operands o = c.Promoted({0, 1});
  return o[0].dtype() == DType::kBool ? c.b.And(o[0], o[1]) : c.b.Emit("BitwiseAnd", {o[0], o[1]});
}
Result BitwiseOr(Call& c) {
  Operands o = c.Promoted({0, 1});
  return o[0].dtype() == DType::kBool ? c.b.Or(o[0], o[1]) : c.b.Emit("BitwiseOr", {o[0], o[1]});
}
Result BitwiseXor(Call& c) {
  Operands o = c.Promoted({0, 1});
  return o[0].dtype() == DType::kBool ? c.b.Xor(o[0], o[1]) : c.b.Emit("BitwiseXor", {o[0], o[1]});
}
Result BitwiseNot(Call& c) {
  Operand x = c.Tensor(0);
  return x.dtype() == DType::kBool ? c.b.Not(x) : c.b.Emit("BitwiseNot", {x});
}

// ONNX shifts unsigned integers only. Shifts by the width or more, which BitShift leaves open, give 0 as in PyTorch.
Operand ShiftUnsigned(Builder& b, const Operand& x, const Operand& by, const char* direction) {
  Operand shifted = b.Emit("BitShift", {x, by}, {{"direction", std::string(direction)}});
  return b.Where(b.Less(by, BitWidth(x.dtype())), shifted, b.NumberLike(0, x));
}
DType UnsignedOf(DType dtype) {
  switch (BitWidth(dtype)) {
    case 8: return DType::kUInt8;
    case 16: return DType::kUInt16;
    case 32: return DType::kUInt32;
    default: return DType::kUInt64;
  }
}
// The cast to the unsigned type of the same width keeps the bits.
Result LeftShift(Call& c) {
  Operands o = c.Promoted({0, 1});
  DType raw = UnsignedOf(o[0].dtype());
  return c.b.Cast(ShiftUnsigned(c.b, c.b.Cast(o[0], raw), c.b.Cast(o[1], raw), "LEFT"), o[0].dtype());
}
// Shifting a negative number right rounds down: ~(~x >> n).
Result RightShift(Call& c) {
  Operands o = c.Promoted({0, 1});
  DType dtype = o[0].dtype(), raw = UnsignedOf(dtype);
  Operand by = c.b.Cast(o[1], raw);
  if (dtype == raw) return ShiftUnsigned(c.b, o[0], by, "RIGHT");
  Operand negative = c.b.Less(o[0], 0), flipped = c.b.Sub(c.b.NumberLike(-1, o[0]), o[0]);
  Operand magnitude = c.b.Cast(c.b.Where(negative, flipped, o[0]), raw);
  Operand shifted = c.b.Cast(ShiftUnsigned(c.b, magnitude, by, "RIGHT"), dtype);
  return c.b.Where(negative, c.b.Sub(c.b.NumberLike(-1, shifted), shifted), shifted);
}

Operand NoneOf(Builder& b, const Operand& x) { return b.Fill(0, DType::kBool, b.ShapeOf(x)); }
Result IsNan(Call& c) {
  Operand x = c.Tensor(0);
  if (x.is_complex()) return c.b.Or(c.b.IsNaN(c.b.Real(x)), c.b.IsNaN(c.b.Imaginary(x)));
  return c.b.IsNaN(x);
}
Operand IsInfOf(Builder& b, const Operand& x) {
  return IsFloating(x.dtype()) ? b.Equal(b.Abs(x), kInfinity) : NoneOf(b, x);
}
Result IsInf(Call& c) {
  Operand x = c.Tensor(0);
  if (x.is_complex()) return c.b.Or(IsInfOf(c.b, c.b.Real(x)), IsInfOf(c.b, c.b.Imaginary(x)));
  return IsInfOf(c.b, x);
}
Operand IsFiniteOf(Builder& b, const Operand& x) {
  if (!IsFloating(x.dtype())) return b.Fill(1, DType::kBool, b.ShapeOf(x));
  return b.Less(b.Abs(x), kInfinity);  // false for NaN, too
}
Result IsFinite(Call& c) {
  Operand x = c.Tensor(0);
  if (x.is_complex()) return c.b.And(IsFiniteOf(c.b, c.b.Real(x)), IsFiniteOf(c.b, c.b.Imaginary(x)));
  return IsFiniteOf(c.b, x);
}
Result IsSignedInf(Call& c) {
  Operand x = c.Tensor(0);
  if (!IsFloating(x.dtype())) return NoneOf(c.b, x);
  return c.b.Equal(x, c.op_name() == "isposinf" ? kInfinity : -kInfinity);
}
Result IsReal(Call& c) {
  Operand x = c.Tensor(0);
  if (x.is_complex()) return c.b.Equal(c.b.Imaginary(x), 0);
  return c.b.Fill(1, DType::kBool, c.b.ShapeOf(x));
}
Result SignBit(Call& c) {
  Operand x = c.Tensor(0);
  return x.dtype() == DType::kBool ? NoneOf(c.b, x) : SignBitOf(c.b, x);
}

// |x - y| <= atol + rtol |y|; equal infinities are close, NaN only when asked.
Operand CloseOf(Call& c) {
  Operands o = c.Promoted({0, 1});
  Operand x = o[0], y = o[1];
  double rtol = c.Float(2), atol = c.Float(3);
  Operand close = c.b.Equal(x, y);
  if (c.Bool(4) && IsFloating(x.dtype())) close = c.b.Or(close, c.b.And(c.b.IsNaN(x), c.b.IsNaN(y)));
  if (rtol == 0 && atol == 0) return close;
  Operand fx = c.b.ToFloat(x), fy = c.b.ToFloat(y);
  Operand distance = c.b.Abs(c.b.Sub(fx, fy));
  Operand allowed = c.b.Add(c.b.Abs(c.b.Mul(fy, rtol)), atol);
  Operand near = c.b.And(c.b.LessOrEqual(distance, allowed), IsFiniteOf(c.b, distance));
  return c.b.Or(close, near);
}
Result IsClose(Call& c) { return CloseOf(c); }

// The type of a result does not depend on the condition.
Result Where(Call& c) {
  Operands o = c.Promoted({1, 2});
  return c.b.Where(c.b.Cast(c.Tensor(0), DType::kBool), o[0], o[1]);
}

Result MaskedFill(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.Where(c.Tensor(1), c.As(c.Any(2), x.dtype()), x);
}

constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"eq.Tensor,Scalar(Tensor self, Any other)", Eq, kPlain, kComplexToo},
    {"ne.Tensor,Scalar(Tensor self, Any other)", Ne, kPlain, kComplexToo},
    {"lt.Tensor,Scalar(Tensor self, Any other)", Lt},
    {"le.Tensor,Scalar(Tensor self, Any other)", Le},
    {"gt.Tensor,Scalar(Tensor self, Any other)", Gt},
    {"ge.Tensor,Scalar(Tensor self, Any other)", Ge},
    {"logical_and(Tensor self, Tensor other)", LogicalAnd},
    {"logical_or(Tensor self, Tensor other)", LogicalOr},
    {"logical_xor(Tensor self, Tensor other)", LogicalXor},
    {"logical_not(Tensor self)", LogicalNot},
    {"bitwise_and.Tensor,Scalar,Scalar_Tensor(Any self, Any other)", BitwiseAnd},
    {"bitwise_or.Tensor,Scalar,Scalar_Tensor(Any self, Any other)", BitwiseOr},
    {"bitwise_xor.Tensor,Scalar,Scalar_Tensor(Any self, Any other)", BitwiseXor},
    {"__and__.Tensor,Scalar(Tensor self, Any other)", BitwiseAnd},
    {"__or__.Tensor,Scalar(Tensor self, Any other)", BitwiseOr},
    {"__xor__.Tensor,Scalar(Tensor self, Any other)", BitwiseXor},
    {"bitwise_not(Tensor self)", BitwiseNot},
    {"bitwise_left_shift.Tensor,Tensor_Scalar,Scalar_Tensor(Any self, Any other)", LeftShift},
    {"bitwise_right_shift.Tensor,Tensor_Scalar,Scalar_Tensor(Any self, Any other)", RightShift},
    {"__lshift__.Tensor,Scalar(Tensor self, Any other)", LeftShift},
    {"__rshift__.Tensor,Scalar(Tensor self, Any other)", RightShift},
    {"isnan(Tensor self)", IsNan, kPlain, kComplexToo},
    {"isinf(Tensor self)", IsInf, kPlain, kComplexToo},
    {"isfinite(Tensor self)", IsFinite, kPlain, kComplexToo},
    {"isposinf(Tensor self)", IsSignedInf},
    {"isneginf(Tensor self)", IsSignedInf},
    {"isreal(Tensor self)", IsReal, kPlain, kComplexToo},
    {"signbit(Tensor self)", SignBit},
    {"isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)", IsClose},
    {"where.self,ScalarSelf,ScalarOther,Scalar(Tensor condition, Any self, Any other)", Where, kPlain, kComplexToo},
    {"masked_fill.Scalar,Tensor(Tensor self, Tensor mask, Any value)", MaskedFill, kPlain, kComplexToo},
};

}  // namespace

std::span<const Rule> ComparisonRules() { return kRules; }

}  // namespace ferry::torch

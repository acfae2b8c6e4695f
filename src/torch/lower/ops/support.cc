#include "torch/lower/ops/support.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace ferry::torch {

Operand TruncOf(Builder& b, const Operand& x) { return b.Where(b.Less(x, 0), b.Widened("Ceil", {x}), b.Floor(x)); }

Operand Log1pOf(Builder& b, const Operand& x) {
  // 2 atanh(x / (2 + x)) is exact where 1 + x would round x away.
  Operand near = b.Mul(b.Widened("Atanh", {b.Div(x, b.Add(x, 2))}), 2);
  return b.Where(b.Less(b.Abs(x), 0.5), near, b.Log(b.Add(x, 1)));
}

Operand HypotOf(Builder& b, const Operand& x, const Operand& y) {
  Operand ax = b.Abs(x), ay = b.Abs(y);
  Operand large = b.Max(ax, ay), small = b.Min(ax, ay);
  Operand ratio = b.Div(small, large);
  Operand scaled = b.Mul(large, b.Sqrt(b.Add(b.Mul(ratio, ratio), 1)));
  // Both 0, or one of them infinite: the ratio says nothing.
  Operand plain = b.Or(b.Equal(large, 0), b.Equal(large, std::numeric_limits<double>::infinity()));
  return b.Where(plain, large, scaled);
}

Operand SignBitOf(Builder& b, const Operand& x) {
  if (!IsFloating(x.dtype())) return b.Less(x, 0);
  return b.Or(b.Less(x, 0), b.And(b.Equal(x, 0), b.Less(b.Reciprocal(x), 0)));
}

Operand Atan2Of(Builder& b, const Operand& y, const Operand& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Operand both_infinite = b.And(b.Equal(b.Abs(x), kInfinity), b.Equal(b.Abs(y), kInfinity));
  Operand dx = b.Where(both_infinite, b.Widened("Sign", {x}), x),
          dy = b.Where(both_infinite, b.Widened("Sign", {y}), y);
  Operand vertical = b.Mul(b.Widened("Sign", {dy}), M_PI / 2);
  Operand angle = b.Where(b.Equal(dx, 0), vertical, b.Widened("Atan", {b.Div(dy, dx)}));
  Operand half_turn = b.Where(SignBitOf(b, y), b.NumberLike(-M_PI, x), b.NumberLike(M_PI, x));
  // Left of the vertical: also from the origin, when x is -0 and y is 0.
  Operand left = b.Or(b.Less(x, 0), b.And(SignBitOf(b, x), b.Equal(y, 0)));
  return b.Where(left, b.Add(angle, half_turn), angle);
}

static void RequireFew(double count, double most, const char* what) {
  if (!(count >= 0 && count <= most))
    Fail(ErrorCode::kUnsupported, "it would have to write ", count, " ", what, ", which must be at most ", most);
}
void RequireFewPositions(double count) { RequireFew(count, 1 << 24, "positions"); }
void RequireFewNodes(double count) { RequireFew(count, 1 << 16, "nodes"); }

Operand NormAlong(Builder& b, const Operand& x, double p, const std::vector<int64_t>& axes, bool keep_dims) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (p == 0) return b.Reduce("ReduceSum", b.CastLike(b.Not(b.Equal(x, 0)), x), axes, keep_dims);
  if (p == 2) return b.Reduce("ReduceL2", x, axes, keep_dims);
  Operand magnitude = b.Abs(x);
  if (p == 1) return b.Reduce("ReduceSum", magnitude, axes, keep_dims);
  if (p == kInfinity) return b.Reduce("ReduceMax", magnitude, axes, keep_dims);
  if (p == -kInfinity) return b.Reduce("ReduceMin", magnitude, axes, keep_dims);
  return b.Pow(b.Reduce("ReduceSum", b.Pow(magnitude, p), axes, keep_dims), 1 / p);
}

std::pair<double, double> FiniteRange(DType dtype) {
  switch (dtype) {
    case DType::kDouble: return {-std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
    case DType::kFloat: return {-std::numeric_limits<float>::max(), std::numeric_limits<float>::max()};
    case DType::kFloat16: return {-65504, 65504};
    case DType::kBFloat16: return {-0x1.FEp127, 0x1.FEp127};
    case DType::kInt64: return {-0x1p63, 0x1p63};
    case DType::kInt32: return {INT32_MIN, INT32_MAX};
    case DType::kInt16: return {INT16_MIN, INT16_MAX};
    case DType::kInt8: return {INT8_MIN, INT8_MAX};
    case DType::kUInt8: return {0, UINT8_MAX};
    default: Fail(ErrorCode::kUnsupported, "the range of ", dtype, " is not known here");
  }
}

Operand MagnitudeOf(Builder& b, const Operand& complex) { return HypotOf(b, b.Real(complex), b.Imaginary(complex)); }

Operand MultiplyComplex(Builder& b, const Operand& x, const Operand& y) {
  Operand a = b.Real(x), bi = b.Imaginary(x), c = b.Real(y), d = b.Imaginary(y);
  return b.MakeComplex(b.Sub(b.Mul(a, c), b.Mul(bi, d)), b.Add(b.Mul(a, d), b.Mul(bi, c)));
}

Operand DivideComplex(Builder& b, const Operand& x, const Operand& y) {
  Operand a = b.Real(x), bi = b.Imaginary(x), c = b.Real(y), d = b.Imaginary(y);
  Operand norm = b.Add(b.Mul(c, c), b.Mul(d, d));
  return b.MakeComplex(b.Div(b.Add(b.Mul(a, c), b.Mul(bi, d)), norm), b.Div(b.Sub(b.Mul(bi, c), b.Mul(a, d)), norm));
}

}  // namespace ferry::torch

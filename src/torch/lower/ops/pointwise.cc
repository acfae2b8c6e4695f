// Arithmetic element by element.
#include <cmath>
#include <limits>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

// --- one operand

// sin → Sin: functions whose ONNX operator has the same name; integers become float first.
Result FloatFunction(Call& c) {
  std::string name = c.op_name();
  if (name.starts_with("arc")) name = "a" + name.substr(3);
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return c.b.Widened(name, {c.FloatTensor(0)});
}
// floor, ceil, round: integers stay as they are.
Result Rounding(Call& c) {
  Operand x = c.Tensor(0);
  std::string name = c.op_name();
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return IsFloating(x.dtype()) ? c.b.Widened(name, {x}) : x;
}
Result Trunc(Call& c) {
  Operand x = c.Tensor(0);
  return IsFloating(x.dtype()) ? TruncOf(c.b, x) : x;
}
Result Frac(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.Sub(x, TruncOf(c.b, x));
}
Result RoundDecimals(Call& c) {
  Operand x = c.Tensor(0);
  int64_t decimals = c.Int(1);
  if (!IsFloating(x.dtype())) return x;
  double scale = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  if (decimals == 0) return c.b.Widened("Round", {x});
  if (decimals > 0) return c.b.Div(c.b.Widened("Round", {c.b.Mul(x, scale)}), scale);
  return c.b.Mul(c.b.Widened("Round", {c.b.Div(x, scale)}), scale);
}
Result Abs(Call& c) {
  Operand x = c.Tensor(0);
  if (x.is_complex()) return MagnitudeOf(c.b, x);
  return x.dtype() == DType::kBool ? x : c.b.Abs(x);
}
Result Neg(Call& c) {
  Operand x = c.Tensor(0);
  return x.is_complex() ? c.b.Neg(x.AsPairs()).AsComplex() : c.b.Neg(x);
}
Result Sign(Call& c) {
  Operand x = c.Tensor(0);
  if (x.dtype() == DType::kBool) return x;
  Operand sign = c.b.Widened("Sign", {x});
  return IsFloating(x.dtype()) ? c.b.Where(c.b.IsNaN(x), c.b.NumberLike(0, x), sign) : sign;
}
Result Sgn(Call& c) {
  Operand x = c.Tensor(0);
  if (!x.is_complex()) return Sign(c);
  Operand magnitude = c.b.Unsqueeze(MagnitudeOf(c.b, x), {-1});
  Operand pairs = x.AsPairs();
  return c.b.Where(c.b.Equal(magnitude, 0), c.b.NumberLike(0, pairs), c.b.Div(pairs, magnitude)).AsComplex();
}
Result Square(Call& c) {
  Operand x = c.Tensor(0);
  if (x.is_complex()) return MultiplyComplex(c.b, x, x);
  return c.b.Mul(x, x);
}
Result Reciprocal(Call& c) {
  Operand x = c.FloatTensor(0);
  if (x.is_complex()) return DivideComplex(c.b, c.b.Number(1, x.dtype()), x);
  return c.b.Reciprocal(x);
}
Result Rsqrt(Call& c) { return c.b.Reciprocal(c.b.Sqrt(c.FloatTensor(0))); }
Result Exp2(Call& c) {
  Operand x = c.FloatTensor(0);
  return c.b.Pow(c.b.NumberLike(2, x), x);
}
// tanh keeps what exp(x) - 1 would lose near 0.
Result Expm1(Call& c) {
  Operand x = c.FloatTensor(0);
  return c.b.Mul(c.b.Widened("Tanh", {c.b.Mul(x, 0.5)}), c.b.Add(c.b.Exp(x), 1));
}
Result Log1p(Call& c) { return Log1pOf(c.b, c.FloatTensor(0)); }
// In double, so that the logarithms of powers are whole.
Result LogBase(Call& c) {
  Operand x = c.FloatTensor(0);
  double base = c.op_name() == "log2" ? 2 : 10;
  return c.b.CastLike(c.b.Div(c.b.Log(c.b.Cast(x, DType::kDouble)), std::log(base)), x);
}
Result Sinc(Call& c) {
  Operand x = c.b.Mul(c.FloatTensor(0), M_PI);
  return c.b.Where(c.b.Equal(x, 0), c.b.NumberLike(1, x), c.b.Div(c.b.Widened("Sin", {x}), x));
}
Result Logit(Call& c) {
  Operand x = c.FloatTensor(0);
  if (!c.IsNone(1)) {
    double eps = c.Float(1);
    x = c.b.Widened("Clip", {x, c.b.NumberLike(eps, x), c.b.NumberLike(1 - eps, x)});
  }
  return c.b.Log(c.b.Div(x, c.b.Sub(1, x)));
}
Result Rad2Deg(Call& c) { return c.b.Mul(c.FloatTensor(0), 180 / M_PI); }
Result Deg2Rad(Call& c) { return c.b.Mul(c.FloatTensor(0), M_PI / 180); }
Result Angle(Call& c) {
  Operand x = c.FloatTensor(0);
  if (x.is_complex()) return Atan2Of(c.b, c.b.Imaginary(x), c.b.Real(x));
  Operand angle = c.b.Where(c.b.Less(x, 0), c.b.NumberLike(M_PI, x), c.b.NumberLike(0, x));
  return c.b.Where(c.b.IsNaN(x), x, angle);
}
Result NanToNum(Call& c) {
  Operand x = c.Tensor(0);
  if (!IsFloating(x.dtype())) return x;
  auto [lowest, highest] = FiniteRange(x.dtype());
  double nan = c.IsNone(1) ? 0 : c.Float(1), up = c.IsNone(2) ? highest : c.Float(2),
         down = c.IsNone(3) ? lowest : c.Float(3);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Operand y = c.b.Where(c.b.IsNaN(x), c.b.NumberLike(nan, x), x);
  y = c.b.Where(c.b.Equal(x, kInfinity), c.b.NumberLike(up, x), y);
  return c.b.Where(c.b.Equal(x, -kInfinity), c.b.NumberLike(down, x), y);
}

// --- two operands

Operand AddOf(Builder& b, const Operand& x, const Operand& y) {
  if (x.dtype() == DType::kBool) return b.Or(x, y);
  return x.is_complex() ? b.Add(x.AsPairs(), y.AsPairs()).AsComplex() : b.Add(x, y);
}
Operand SubOf(Builder& b, const Operand& x, const Operand& y) {
  return x.is_complex() ? b.Sub(x.AsPairs(), y.AsPairs()).AsComplex() : b.Sub(x, y);
}
Operand MulOf(Builder& b, const Operand& x, const Operand& y) {
  if (x.dtype() == DType::kBool) return b.And(x, y);
  return x.is_complex() ? MultiplyComplex(b, x, y) : b.Mul(x, y);
}
Operand DivOf(Builder& b, const Operand& x, const Operand& y) {
  return x.is_complex() ? DivideComplex(b, x, y) : b.Div(x, y);
}
// `other`, times alpha where that is not 1.
Operand Scaled(Call& c, const Operand& other, size_t alpha) {
  Scalar factor = c.Number(alpha);
  if (factor.is_known() && factor.AsComplex() == 1.0) return other;
  return MulOf(c.b, other, c.b.Of(factor, other.dtype()));
}
Result Add(Call& c) {
  Operands o = c.Promoted({0, 1});
  return AddOf(c.b, o[0], Scaled(c, o[1], 2));
}
Result Sub(Call& c) {
  Operands o = c.Promoted({0, 1});
  return SubOf(c.b, o[0], Scaled(c, o[1], 2));
}
Result Rsub(Call& c) {
  Operands o = c.Promoted({0, 1});
  return SubOf(c.b, o[1], Scaled(c, o[0], 2));
}
Result Mul(Call& c) {
  Operands o = c.Promoted({0, 1});
  return MulOf(c.b, o[0], o[1]);
}
Result Div(Call& c) {
  DType dtype = FloatingResult(ResultType({c.Any(0), c.Any(1)}));
  Operands o = c.PromotedTo(dtype, {0, 1});
  return DivOf(c.b, o[0], o[1]);
}
// Python's // on floats: built on fmod, which is exact where the quotient is not.
Operand FloorDivideFloats(Builder& b, const Operand& x, const Operand& y) {
  Operand rest = b.Widened("Mod", {x, y}, {{"fmod", int64_t{1}}});
  Operand quotient = b.Div(b.Sub(x, rest), y);
  Operand crosses = b.And(b.Not(b.Equal(rest, 0)), b.Xor(b.Less(rest, 0), b.Less(y, 0)));
  quotient = b.Widened("Round", {b.Where(crosses, b.Sub(quotient, 1), quotient)});
  return b.Where(b.Equal(y, 0), b.Div(x, y), quotient);
}
Operand FloorDivideOf(Builder& b, const Operand& x, const Operand& y) {
  return IsFloating(x.dtype()) ? FloorDivideFloats(b, x, y) : b.FloorDivide(x, y);
}
Result FloorDivide(Call& c) {
  Operands o = c.Promoted({0, 1});
  return FloorDivideOf(c.b, o[0], o[1]);
}
Result DivMode(Call& c) {
  if (c.IsNone(2)) return Div(c);
  Operands o = c.Promoted({0, 1});
  if (c.Text(2) == "floor") return FloorDivideOf(c.b, o[0], o[1]);
  Operand quotient = c.b.Div(o[0], o[1]);
  return IsFloating(quotient.dtype()) ? TruncOf(c.b, quotient) : quotient;
}
Result Remainder(Call& c) {
  Operands o = c.Promoted({0, 1});
  if (!IsFloating(o[0].dtype())) return c.b.Widened("Mod", {o[0], o[1]});
  Operand rest = c.b.Widened("Mod", {o[0], o[1]}, {{"fmod", int64_t{1}}});
  Operand crosses = c.b.And(c.b.Not(c.b.Equal(rest, 0)), c.b.Xor(c.b.Less(rest, 0), c.b.Less(o[1], 0)));
  return c.b.Where(crosses, c.b.Add(rest, o[1]), rest);
}
Result Fmod(Call& c) {
  Operands o = c.Promoted({0, 1});
  return c.b.Widened("Mod", {o[0], o[1]}, {{"fmod", int64_t{1}}});
}
Result Pow(Call& c) {
  Operands o = c.Promoted({0, 1});
  return o[0].dtype() == DType::kBool ? c.b.Or(o[0], c.b.Not(o[1])) : c.b.Pow(o[0], o[1]);
}
Result FloatPower(Call& c) {
  Operands o = c.PromotedTo(DType::kDouble, {0, 1});
  return c.b.Pow(o[0], o[1]);
}
Result Ldexp(Call& c) {
  DType dtype = FloatingResult(ResultType({c.Any(0), c.Any(1)}));
  Operands o = c.PromotedTo(dtype, {0, 1});
  return c.b.Mul(o[0], c.b.Pow(c.b.NumberLike(2, o[1]), o[1]));
}

Operand MaxOf(Builder& b, const Operand& x, const Operand& y) {
  return x.dtype() == DType::kBool ? b.Or(x, y) : b.Max(x, y);
}
Operand MinOf(Builder& b, const Operand& x, const Operand& y) {
  return x.dtype() == DType::kBool ? b.And(x, y) : b.Min(x, y);
}
Result Maximum(Call& c) {
  Operands o = c.Promoted({0, 1});
  return MaxOf(c.b, o[0], o[1]);
}
Result Minimum(Call& c) {
  Operands o = c.Promoted({0, 1});
  return MinOf(c.b, o[0], o[1]);
}
// The other one where one of them is NaN.
Result FmaxFmin(Call& c) {
  Operands o = c.Promoted({0, 1});
  Operand chosen = c.op_name() == "fmax" ? MaxOf(c.b, o[0], o[1]) : MinOf(c.b, o[0], o[1]);
  if (!IsFloating(o[0].dtype())) return chosen;
  return c.b.Where(c.b.IsNaN(o[0]), o[1], c.b.Where(c.b.IsNaN(o[1]), o[0], chosen));
}

Result ClampBetween(Call& c, size_t low, size_t high) {
  std::vector<TensorOrNumber> values = {c.Any(0)};
  bool has_low = low > 0 && !c.IsNone(low), has_high = high > 0 && !c.IsNone(high);
  if (has_low) values.push_back(c.Any(low));
  if (has_high) values.push_back(c.Any(high));
  DType dtype = ResultType(values);
  Operand x = c.b.Cast(c.Tensor(0), dtype);
  auto is_number = [&](size_t i) { return c.arg(i).get<Scalar>() != nullptr; };
  bool numbers = (!has_low || is_number(low)) && (!has_high || is_number(high));
  if (numbers)
    return c.b.Widened(
        "Clip", {x, has_low ? c.As(c.Any(low), dtype) : Operand(), has_high ? c.As(c.Any(high), dtype) : Operand()});
  if (has_low) x = c.b.Max(x, c.As(c.Any(low), dtype));
  if (has_high) x = c.b.Min(x, c.As(c.Any(high), dtype));
  return x;
}
Result Clamp(Call& c) { return ClampBetween(c, 1, 2); }
Result ClampMin(Call& c) { return ClampBetween(c, 1, 0); }
Result ClampMax(Call& c) { return ClampBetween(c, 0, 1); }

Result Atan2(Call& c) {
  Operands o = c.PromotedTo(FloatingResult(ResultType({c.Any(0), c.Any(1)})), {0, 1});
  return Atan2Of(c.b, o[0], o[1]);
}
Result Hypot(Call& c) {
  Operands o = c.Promoted({0, 1});
  return HypotOf(c.b, o[0], o[1]);
}
Result Copysign(Call& c) {
  Operands o = c.PromotedTo(FloatingResult(ResultType({c.Any(0), c.Any(1)})), {0, 1});
  Operand magnitude = c.b.Abs(o[0]);
  return c.b.Where(SignBitOf(c.b, o[1]), c.b.Neg(magnitude), magnitude);
}
Result Heaviside(Call& c) {
  Operands o = c.Promoted({0, 1});
  Operand step = c.b.Where(c.b.Less(o[0], 0), c.b.NumberLike(0, o[0]), c.b.NumberLike(1, o[0]));
  return c.b.Where(c.b.Equal(o[0], 0), o[1], step);
}
// The float beside x in the direction of y. In double, a little more than half a unit in the last place is added; the
// rounding back to float does the rest. Below the normal numbers the unit is always the same.
Result Nextafter(Call& c) {
  Builder& b = c.b;
  Operands o = c.Promoted({0, 1});
  if (o[0].dtype() != DType::kFloat) c.Unsupported("there is no export for ", o[0].dtype());
  Operand x = b.Cast(o[0], DType::kDouble), up = b.Less(o[0], o[1]);
  Operand step = b.Max(b.Mul(b.Abs(x), 0x1p-24 * (1 + 0x1p-20)), b.Number(0x1p-149, DType::kDouble));
  Operand moved = b.Cast(b.Add(x, b.Where(up, step, b.Neg(step))), DType::kFloat);
  auto [lowest, highest] = FiniteRange(DType::kFloat);
  Operand infinite = b.Equal(b.Abs(o[0]), std::numeric_limits<double>::infinity());
  moved = b.Where(infinite, b.Where(up, b.NumberLike(lowest, o[0]), b.NumberLike(highest, o[0])), moved);
  Operand sum = b.Add(o[0], o[1]);  // NaN where one of them is
  return b.Where(b.Equal(o[0], o[1]), o[1], b.Where(b.Or(b.IsNaN(o[0]), b.IsNaN(o[1])), sum, moved));
}
// x = mantissa · 2^exponent with 0.5 ≤ |mantissa| < 1. In double, where every power of two of a float is exact.
Result Frexp(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  if (x.dtype() == DType::kDouble) c.Unsupported("there is no export for double");
  Operand wide = b.Cast(x, DType::kDouble), magnitude = b.Abs(wide);
  Operand plain =
      b.Or(b.Or(b.Equal(magnitude, 0), b.IsNaN(wide)), b.Equal(magnitude, std::numeric_limits<double>::infinity()));
  Operand safe = b.Where(plain, b.NumberLike(1, wide), magnitude);
  Operand exponent = b.Floor(b.Add(b.Mul(b.Log(safe), 1 / std::log(2.0)), 1));
  // The logarithm may round across a power of two.
  Operand mantissa = b.Div(safe, b.Pow(b.NumberLike(2, wide), exponent));
  exponent = b.Add(exponent, b.CastLike(b.GreaterOrEqual(mantissa, 1), wide));
  exponent = b.Sub(exponent, b.CastLike(b.Less(mantissa, 0.5), wide));
  mantissa = b.Div(wide, b.Pow(b.NumberLike(2, wide), exponent));
  Operand none = b.NumberLike(0, wide);
  return Operands{b.CastLike(b.Where(plain, wide, mantissa), x), b.Cast(b.Where(plain, none, exponent), DType::kInt32)};
}
// x * f(y), 0 where x is 0 whatever f(y) may be, NaN where y is.
Operand TimesLog(Builder& b, const Operand& x, const Operand& y, const Operand& log) {
  Operand product = b.Where(b.Equal(x, 0), b.NumberLike(0, x), b.Mul(x, log));
  return b.Where(b.IsNaN(y), y, product);
}
Result Xlogy(Call& c) {
  Operands o = c.PromotedTo(FloatingResult(ResultType({c.Any(0), c.Any(1)})), {0, 1});
  return TimesLog(c.b, o[0], o[1], c.b.Log(o[1]));
}
Result Xlog1py(Call& c) {
  Operands o = c.PromotedTo(FloatingResult(ResultType({c.Any(0), c.Any(1)})), {0, 1});
  return TimesLog(c.b, o[0], o[1], Log1pOf(c.b, o[1]));
}
// log(e^x + e^y) around the larger one.
Result LogAddExp(Call& c) {
  Operands o = c.PromotedTo(FloatingResult(ResultType({c.Any(0), c.Any(1)})), {0, 1});
  bool binary = c.op_name() == "logaddexp2";
  double log_base = binary ? std::log(2.0) : 1;
  Operand distance = c.b.Neg(c.b.Abs(c.b.Sub(o[0], o[1])));
  Operand gain = Log1pOf(c.b, c.b.Exp(binary ? c.b.Mul(distance, log_base) : distance));
  if (binary) gain = c.b.Div(gain, log_base);
  // Two equal infinities have no distance.
  Operand same = c.b.Add(o[0], std::log(2.0) / log_base);
  return c.b.Where(c.b.Equal(o[0], o[1]), same, c.b.Add(c.b.Max(o[0], o[1]), gain));
}
Result Lerp(Call& c) {
  Operands o = c.Promoted({0, 1, 2});
  return c.b.Add(o[0], c.b.Mul(o[2], c.b.Sub(o[1], o[0])));
}
Result Addcmul(Call& c) {
  Operands o = c.Promoted({0, 1, 2});
  return AddOf(c.b, o[0], Scaled(c, MulOf(c.b, o[1], o[2]), 3));
}
Result Addcdiv(Call& c) {
  DType dtype = FloatingResult(ResultType({c.Any(0), c.Any(1), c.Any(2)}));
  Operands o = c.PromotedTo(dtype, {0, 1, 2});
  return AddOf(c.b, o[0], Scaled(c, DivOf(c.b, o[1], o[2]), 3));
}
Result MakeComplex(Call& c) {
  Operands o = c.Promoted({0, 1});
  Operand shape = c.b.Add(o[0], o[1]);
  return c.b.MakeComplex(c.b.ExpandLike(o[0], shape), c.b.ExpandLike(o[1], shape));
}
Result Polar(Call& c) {
  Operands o = c.Promoted({0, 1});
  return c.b.MakeComplex(c.b.Mul(o[0], c.b.Widened("Cos", {o[1]})), c.b.Mul(o[0], c.b.Widened("Sin", {o[1]})));
}

constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"sin(Tensor self)", FloatFunction},
    {"cos(Tensor self)", FloatFunction},
    {"tan(Tensor self)", FloatFunction},
    {"asin(Tensor self)", FloatFunction},
    {"acos(Tensor self)", FloatFunction},
    {"atan(Tensor self)", FloatFunction},
    {"sinh(Tensor self)", FloatFunction},
    {"cosh(Tensor self)", FloatFunction},
    {"tanh(Tensor self)", FloatFunction},
    {"asinh(Tensor self)", FloatFunction},
    {"acosh(Tensor self)", FloatFunction},
    {"atanh(Tensor self)", FloatFunction},
    {"exp(Tensor self)", FloatFunction},
    {"log(Tensor self)", FloatFunction},
    {"sqrt(Tensor self)", FloatFunction},
    {"erf(Tensor self)", FloatFunction},
    {"sigmoid(Tensor self)", FloatFunction},
    {"floor(Tensor self)", Rounding},
    {"ceil(Tensor self)", Rounding},
    {"round(Tensor self)", Rounding},
    {"round.decimals(Tensor self, *, int decimals)", RoundDecimals},
    {"trunc(Tensor self)", Trunc},
    {"frac(Tensor self)", Frac},
    {"abs(Tensor self)", Abs, kPlain, kComplexToo},
    {"neg(Tensor self)", Neg, kPlain, kComplexToo},
    {"sign(Tensor self)", Sign},
    {"sgn(Tensor self)", Sgn, kPlain, kComplexToo},
    {"square(Tensor self)", Square, kPlain, kComplexToo},
    {"reciprocal(Tensor self)", Reciprocal, kPlain, kComplexToo},
    {"rsqrt(Tensor self)", Rsqrt},
    {"exp2(Tensor self)", Exp2},
    {"expm1(Tensor self)", Expm1},
    {"log1p(Tensor self)", Log1p},
    {"log2(Tensor self)", LogBase},
    {"log10(Tensor self)", LogBase},
    {"sinc(Tensor self)", Sinc},
    {"logit(Tensor self, float? eps=None)", Logit},
    {"rad2deg(Tensor self)", Rad2Deg},
    {"deg2rad(Tensor self)", Deg2Rad},
    {"angle(Tensor self)", Angle, kPlain, kComplexToo},
    {"nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None)", NanToNum},
    {"add.Tensor,Scalar(Tensor self, Any other, *, Scalar alpha=1)", Add, kPlain, kComplexToo},
    {"sub.Tensor,Scalar(Tensor self, Any other, *, Scalar alpha=1)", Sub, kPlain, kComplexToo},
    {"rsub.Tensor,Scalar(Tensor self, Any other, *, Scalar alpha=1)", Rsub, kPlain, kComplexToo},
    {"mul.Tensor,Scalar(Tensor self, Any other)", Mul, kPlain, kComplexToo},
    {"div.Tensor,Scalar(Tensor self, Any other)", Div, kPlain, kComplexToo},
    {"div.Tensor_mode,Scalar_mode(Tensor self, Any other, *, str? rounding_mode)", DivMode},
    {"floor_divide.default,Scalar(Tensor self, Any other)", FloorDivide},
    {"remainder.Tensor,Scalar,Scalar_Tensor(Any self, Any other)", Remainder},
    {"fmod.Tensor,Scalar(Tensor self, Any other)", Fmod},
    {"pow.Tensor_Tensor,Tensor_Scalar,Scalar(Any self, Any exponent)", Pow},
    {"float_power.Tensor_Tensor,Tensor_Scalar,Scalar(Any self, Any exponent)", FloatPower},
    {"ldexp.Tensor(Tensor self, Tensor other)", Ldexp},
    {"maximum(Tensor self, Tensor other)", Maximum},
    {"max.other(Tensor self, Tensor other)", Maximum},
    {"minimum(Tensor self, Tensor other)", Minimum},
    {"min.other(Tensor self, Tensor other)", Minimum},
    {"fmax(Tensor self, Tensor other)", FmaxFmin},
    {"fmin(Tensor self, Tensor other)", FmaxFmin},
    {"clamp.default,Tensor(Tensor self, Any? min=None, Any? max=None)", Clamp},
    {"clamp_min.default,Tensor(Tensor self, Any min)", ClampMin},
    {"clamp_max.default,Tensor(Tensor self, Any max)", ClampMax},
    {"atan2(Tensor self, Tensor other)", Atan2},
    {"hypot(Tensor self, Tensor other)", Hypot},
    {"copysign.Tensor,Scalar(Tensor self, Any other)", Copysign},
    {"frexp.Tensor(Tensor self)", Frexp},
    {"nextafter(Tensor self, Tensor other)", Nextafter},
    {"heaviside(Tensor self, Tensor values)", Heaviside},
    {"xlogy.Tensor,Scalar_Other,Scalar_Self(Any self, Any other)", Xlogy},
    {"special_xlog1py.default,other_scalar,self_scalar(Any self, Any other)", Xlog1py},
    {"logaddexp(Tensor self, Tensor other)", LogAddExp},
    {"logaddexp2(Tensor self, Tensor other)", LogAddExp},
    {"lerp.Tensor,Scalar(Tensor self, Tensor end, Any weight)", Lerp},
    {"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1)", Addcmul, kPlain, kComplexToo},
    {"addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1)", Addcdiv, kPlain, kComplexToo},
    {"complex(Tensor real, Tensor imag)", MakeComplex},
    {"polar(Tensor abs, Tensor angle)", Polar},
};

}  // namespace

std::span<const Rule> PointwiseRules() { return kRules; }

}  // namespace ferry::torch

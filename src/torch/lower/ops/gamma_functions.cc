// The gamma function's relatives.
#include <cmath>
#include <limits>

#include "torch/lower/families.h"
#include "torch/lower/ops/numerics.h"

namespace ferry::torch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// B2, B4 … B16
constexpr double kBernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                 5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
constexpr int kShift = 8;  // asymptotic series are used at arguments of at least this

// Where x is small, x + 8; the recurrence of the function makes up for it.
Operand Shifted(Builder& b, const Operand& x, const Operand& is_large) {
  return b.Where(is_large, x, b.Add(x, kShift));
}

// Stirling's series, for x > 0.
Operand PositiveLgamma(Builder& b, const Operand& x) {
  Operand is_large = b.Greater(x, 50), z = Shifted(b, x, is_large);
  Operand limited = b.Min(x, b.NumberLike(50, x)), product = limited;
  for (int k = 1; k < kShift; ++k) product = b.Mul(product, b.Add(limited, k));
  Doubles series;
  for (int k = 1; k <= 7; ++k) series.push_back(kBernoulli[k - 1] / (2 * k * (2 * k - 1)));
  Operand inverse = b.Reciprocal(z);
  Operand rest = b.Mul(inverse, PolynomialOf(b, b.Mul(inverse, inverse), series));
  Operand main = b.Add(b.Mul(b.Sub(z, 0.5), b.Sub(b.Log(z), 1)), 0.5 * std::log(2 * M_PI) - 0.5);
  Operand taken = b.Where(is_large, b.NumberLike(0, x), b.Log(product));
  return b.Sub(b.Add(main, rest), taken);
}

// For x > 0.
Operand PositiveDigamma(Builder& b, const Operand& x) {
  Operand is_large = b.Greater(x, 50), z = Shifted(b, x, is_large);
  Operand taken = b.Reciprocal(x);
  for (int k = 1; k < kShift; ++k) taken = b.Add(taken, b.Reciprocal(b.Add(x, k)));
  Doubles series;
  for (int k = 1; k <= 7; ++k) series.push_back(kBernoulli[k - 1] / (2 * k));
  Operand inverse = b.Reciprocal(z), square = b.Mul(inverse, inverse);
  Operand value = b.Sub(b.Log(z), b.Add(b.Mul(inverse, 0.5), b.Mul(square, PolynomialOf(b, square, series))));
  return b.Where(is_large, value, b.Sub(value, taken));
}

Operand IsWhole(Builder& b, const Operand& x) { return b.Equal(x, b.Floor(x)); }

// ψ(x) = ψ(1 - x) - π / tan(πx) on the left; at 0 the sign of infinity is opposite to that of 0.
Operand DigammaOf(Builder& b, const Operand& x) {
  Operand left = b.Less(x, 0);
  Operand fraction = b.Sub(x, b.Floor(x));
  Operand reflected = b.Mul(b.Reciprocal(b.Emit("Tan", {b.Mul(fraction, M_PI)})), M_PI);
  Operand value = PositiveDigamma(b, b.Where(left, b.Sub(1, x), x));
  value = b.Where(left, b.Sub(value, reflected), value);
  value = b.Where(b.And(left, IsWhole(b, x)), b.NumberLike(kNaN, x), value);
  return b.Where(b.Equal(x, 0), b.Neg(b.Mul(b.Reciprocal(x), kInfinity)), value);
}
Result Digamma(Call& c) {
  return OnDoubles(c, 0, [&](const Operand& x) { return DigammaOf(c.b, x); });
}

// Hurwitz's zeta function Σ (q + k)^-s by the formula of Euler and Maclaurin. Terms are added until q + k is past 9
// for every element; with a negative q that is only defined for whole s.
Operand HurwitzZeta(Builder& b, const Operand& s, const Operand& q) {
  constexpr int64_t kFewest = 10, kMost = 1 << 16;
  Operand lowest = b.Reduce("ReduceMin", q, {}, false);
  Operand wanted = b.Sub(kFewest, b.Floor(ClipTo(b, lowest, -static_cast<double>(kMost), 0)));
  Operand count = b.Cast(wanted, DType::kInt64);
  Operand steps = b.Cast(b.Range(b.Int(0), count, b.Int(1)), DType::kDouble);
  Operand terms = b.Pow(b.Add(b.Unsqueeze(q, {-1}), steps), b.Neg(b.Unsqueeze(s, {-1})));
  Operand sum = b.Reduce("ReduceSum", terms, {-1}, false);
  Operand end = b.Add(q, wanted);
  Operand power = b.Pow(end, b.Neg(s));
  sum = b.Add(sum, b.Add(b.Div(b.Mul(power, end), b.Sub(s, 1)), b.Mul(power, 0.5)));
  // s (s+1) … (s+2j-2) · end^(-s-2j+1) · B2j / (2j)!
  Operand factor = b.Div(b.Mul(power, s), end);
  double factorial = 2;
  for (int j = 1; j <= 8; ++j) {
    sum = b.Add(sum, b.Mul(factor, kBernoulli[j - 1] / factorial));
    factor = b.Div(b.Div(b.Mul(b.Mul(factor, b.Add(s, 2 * j - 1)), b.Add(s, 2 * j)), end), end);
    factorial *= (2 * j + 1) * (2 * j + 2);
  }
  Operand pole = b.And(b.LessOrEqual(q, 0), IsWhole(b, q));
  Operand undefined = b.Or(b.And(b.Less(q, 0), b.Not(IsWhole(b, s))), b.Less(q, -static_cast<double>(kMost)));
  sum = b.Where(undefined, b.NumberLike(kNaN, s), sum);
  sum = b.Where(pole, b.NumberLike(kInfinity, s), sum);
  sum = b.Where(b.Less(s, 1), b.NumberLike(kNaN, s), sum);
  return b.Where(b.Equal(s, 1), b.NumberLike(kInfinity, s), sum);
}
bool IsEmpty(const Operand& x) { return x.static_shape() && x.static_shape()->ElementCount() == 0; }
Result Zeta(Call& c) {
  return OnDoubles(c, 0, 1, [&](const Operand& s, const Operand& q) {
    return IsEmpty(s) || IsEmpty(q) ? c.b.Add(s, q) : HurwitzZeta(c.b, s, q);
  });
}

// ψ'(x) = π² / sin²(πx) - ψ'(1 - x) on the left. PyTorch takes the sine in the tensor's own type, which decides what
// comes out where it should be infinite.
Operand Trigamma(Builder& b, const Operand& x, const Operand& own_type) {
  Operand left = b.Less(x, 0.5), two = b.NumberLike(2, x);
  Operand right_side = b.Where(left, b.Sub(1, x), x);
  Operand value = HurwitzZeta(b, two, right_side);
  Operand sine = b.CastLike(b.Widened("Sin", {b.Mul(own_type, M_PI)}), x);
  return b.Where(left, b.Sub(b.Mul(b.Reciprocal(b.Mul(sine, sine)), M_PI * M_PI), value), value);
}
Result Polygamma(Call& c) {
  int64_t order = c.Int(0);
  Require(order >= 0 && order < 100, "polygamma of order ", order, " has no export");
  return OnDoubles(c, 1, [&](const Operand& x) {
    if (order == 0) return DigammaOf(c.b, x);
    if (IsEmpty(x)) return x;
    if (order == 1) return Trigamma(c.b, x, c.FloatTensor(1));
    auto n = static_cast<double>(order);
    double factor = (order % 2 ? 1 : -1) * std::tgamma(n + 1);
    return c.b.Mul(HurwitzZeta(c.b, c.b.NumberLike(n + 1, x), x), factor);
  });
}

Result Lgamma(Call& c) {
  return OnDoubles(c, 0, [&](const Operand& x) { return LgammaOf(c.b, x); });
}
// log Γ_p(x) = p(p-1)/4 log π + Σ lgamma(x - i/2)
Result Mvlgamma(Call& c) {
  int64_t p = c.Int(1);
  Require(p >= 1 && p <= 1000, "mvlgamma of dimension ", p, " has no export");
  return OnDoubles(c, 0, [&](const Operand& x) {
    Operand sum;
    for (int64_t i = 0; i < p; ++i) {
      Operand term = LgammaOf(c.b, i == 0 ? x : c.b.Sub(x, 0.5 * static_cast<double>(i)));
      sum = sum ? c.b.Add(sum, term) : term;
    }
    return c.b.Add(sum, static_cast<double>(p * (p - 1)) / 4 * std::log(M_PI));
  });
}

constexpr Rule kRules[] = {
    {"lgamma(Tensor self)", Lgamma},
    {"digamma(Tensor self)", Digamma},
    {"polygamma(int n, Tensor self)", Polygamma},
    {"mvlgamma(Tensor self, int p)", Mvlgamma},
    {"special_zeta.default,other_scalar,self_scalar(Any self, Any other)", Zeta},
};

}  // namespace

// Γ(x) Γ(1 - x) = π / sin(πx) on the left.
Operand LgammaOf(Builder& b, const Operand& x) {
  Operand left = b.Less(x, 0.5);
  Operand value = PositiveLgamma(b, b.Where(left, b.Sub(1, x), x));
  Operand reflected = b.Sub(b.Sub(b.NumberLike(std::log(M_PI), x), b.Log(b.Abs(SinPiOf(b, x)))), value);
  Operand result = b.Where(left, reflected, value);
  return b.Where(b.Equal(b.Abs(x), kInfinity), b.NumberLike(kInfinity, x), result);
}

std::span<const Rule> GammaFunctionRules() { return kRules; }

}  // namespace ferry::torch

// The error function's relatives.
#include <cmath>
#include <limits>

#include "torch/lower/families.h"
#include "torch/lower/ops/numerics.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// e^(x²) erfc(x) for x ≥ 1. Up to 6 the trapezoidal rule on 1/π ∫ e^(-x²t²)/(1+t²) dt, whose error is e^(x² - 2π/h);
// beyond, the asymptotic series 1/(x√π) Σ (-1)^k (2k-1)!! / (2x²)^k.
Operand ScaledErfc(Builder& b, const Operand& x) {
  constexpr double kStep = 0.1;
  constexpr int kNodes = 65, kTerms = 13;
  Doubles nodes, weights, series = {1};
  for (int k = 0; k < kNodes; ++k) {
    double t = kStep * k;
    nodes.push_back(t);
    weights.push_back((k == 0 ? 1 : 2) * kStep / M_PI / (1 + t * t));
  }
  for (int k = 1; k < kTerms; ++k) series.push_back(-series.back() * (2 * k - 1) / 2);
  auto near = [&](const Operand& y) {
    return QuadratureOf(b, y, nodes, weights, [&](const Operand& xt) { return b.Exp(b.Neg(b.Mul(xt, xt))); });
  };
  auto far = [&](const Operand& y) {
    Operand inverse = b.Reciprocal(y);
    return b.Mul(b.Mul(inverse, 1 / std::sqrt(M_PI)), PolynomialOf(b, b.Mul(inverse, inverse), series));
  };
  return ByDistance(b, b.Max(x, b.NumberLike(1, x)), 6, near, far);
}

}  // namespace

Operand ErfcOf(Builder& b, const Operand& x) {
  Operand plain = b.Sub(1, b.Emit("Erf", {x}));
  Operand tail = b.Mul(ScaledErfc(b, x), b.Exp(b.Neg(b.Mul(x, x))));
  return b.Where(b.Less(x, 1), plain, tail);
}

namespace {

Result Erfc(Call& c) {
  return OnDoubles(c, 0, [&](const Operand& x) { return ErfcOf(c.b, x); });
}
Result Erfcx(Call& c) {
  return OnDoubles(c, 0, [&](const Operand& x) {
    Operand plain = c.b.Mul(c.b.Exp(c.b.Mul(x, x)), c.b.Sub(1, c.b.Emit("Erf", {x})));
    return c.b.Where(c.b.Less(x, 1), plain, ScaledErfc(c.b, x));
  });
}
Result Ndtr(Call& c) {
  return OnDoubles(c, 0, [&](const Operand& x) { return c.b.Mul(ErfcOf(c.b, c.b.Mul(x, -M_SQRT1_2)), 0.5); });
}
// Far to the left the logarithm is taken before the exponential could vanish.
Result LogNdtr(Call& c) {
  return OnDoubles(c, 0, [&](const Operand& x) {
    Builder& b = c.b;
    Operand t = b.Mul(x, M_SQRT1_2), is_left = b.Less(x, -M_SQRT2);
    Operand left = b.Sub(b.Log(b.Mul(ScaledErfc(b, b.Neg(t)), 0.5)), b.Mul(t, t));
    Operand right = b.Where(is_left, b.NumberLike(0, x), b.Mul(ErfcOf(b, t), -0.5));
    return b.Where(is_left, left, Log1pOf(b, right));
  });
}

// The inverse by Halley's method: each step triples the digits of the first guess.
Operand InverseErf(Builder& b, const Operand& y) {
  constexpr double kShape = 0.147;  // of the first guess, which is off by at most 0.2 %
  constexpr int kSteps = 3;
  Operand square = b.Mul(y, y);
  // At ±1 the answer is infinite: steps there would only make NaN.
  Operand log = b.Log(b.Max(b.Sub(1, square), b.NumberLike(1e-300, y)));
  Operand half = b.Add(b.Mul(log, 0.5), 2 / (M_PI * kShape));
  Operand root = b.Sqrt(b.Sub(b.Mul(half, half), b.Div(log, kShape)));
  Operand x = b.Mul(b.Emit("Sign", {y}), b.Sqrt(b.Max(b.Sub(root, half), b.NumberLike(0, y))));
  for (int step = 0; step < kSteps; ++step) {
    Operand slope = b.Mul(b.Exp(b.Neg(b.Mul(x, x))), 2 / std::sqrt(M_PI));
    Operand newton = b.Div(b.Sub(b.Emit("Erf", {x}), y), slope);
    x = b.Sub(x, b.Div(newton, b.Add(b.Mul(x, newton), 1)));
  }
  Operand magnitude = b.Abs(y);
  x = b.Where(b.Equal(magnitude, 1), b.Mul(y, kInfinity), x);
  return b.Where(b.Greater(magnitude, 1), b.NumberLike(kNaN, y), x);
}
Result Erfinv(Call& c) {
  return OnDoubles(c, 0, [&](const Operand& y) { return InverseErf(c.b, y); });
}

// The quantile of the normal distribution, on the left half: Halley's method on erfc, which keeps its digits there.
Result Ndtri(Call& c) {
  return OnDoubles(c, 0, [&](const Operand& p) {
    Builder& b = c.b;
    constexpr int kSteps = 4;
    Operand mirrored = b.Greater(p, 0.5);
    Operand q = b.Max(b.Where(mirrored, b.Sub(1, p), p), b.NumberLike(1e-300, p));
    Operand t = b.Sqrt(b.Mul(b.Log(q), -2));
    Operand guess = b.Div(PolynomialOf(b, t, {2.515517, 0.802853, 0.010328}),
                          PolynomialOf(b, t, {1, 1.432788, 0.189269, 0.001308}));
    Operand x = b.Sub(guess, t);
    for (int step = 0; step < kSteps; ++step) {
      Operand density = b.Mul(b.Exp(b.Mul(b.Mul(x, x), -0.5)), 1 / std::sqrt(2 * M_PI));
      Operand error = b.Sub(b.Mul(ErfcOf(b, b.Mul(x, -M_SQRT1_2)), 0.5), q);
      Operand newton = b.Div(error, density);
      x = b.Sub(x, b.Div(newton, b.Add(b.Mul(b.Mul(x, newton), 0.5), 1)));
    }
    x = b.Where(mirrored, b.Neg(x), x);
    x = b.Where(b.Equal(p, 0), b.NumberLike(-kInfinity, p), b.Where(b.Equal(p, 1), b.NumberLike(kInfinity, p), x));
    return b.Where(b.Or(b.Less(p, 0), b.Greater(p, 1)), b.NumberLike(kNaN, p), x);
  });
}

Result Entr(Call& c) {
  Operand x = c.FloatTensor(0);
  Operand y = c.b.Neg(c.b.Mul(x, c.b.Log(x)));
  y = c.b.Where(c.b.Equal(x, 0), c.b.NumberLike(0, x), y);
  return c.b.Where(c.b.Less(x, 0), c.b.NumberLike(-kInfinity, x), y);
}

constexpr Rule kRules[] = {
    {"erfc(Tensor self)", Erfc},
    {"special_erfcx(Tensor self)", Erfcx},
    {"erfinv(Tensor self)", Erfinv},
    {"special_ndtr(Tensor self)", Ndtr},
    {"special_log_ndtr(Tensor self)", LogNdtr},
    {"special_ndtri(Tensor self)", Ndtri},
    {"special_entr(Tensor self)", Entr},
};

}  // namespace

std::span<const Rule> ErrorFunctionRules() { return kRules; }

}  // namespace ferry::torch

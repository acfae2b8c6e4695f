// The incomplete gamma functions, from their integrals over u with t = x e^∓u:
//   P(a, x) = x^a e^-x / Γ(a) ∫ e^(-a u - x (e^-u - 1)) du   for x ≤ a, where the integrand falls from u = 0 on, and
//   Q(a, x) = x^a e^-x / Γ(a) ∫ e^(a u - x (e^u - 1)) du     for x > a, likewise.
// Nodes at u = e^(t - e^-t) make the trapezoidal rule converge faster than any power, whatever the scale of the
// integrand.
#include <cmath>
#include <limits>

#include "torch/lower/families.h"
#include "torch/lower/ops/numerics.h"

namespace ferry::torch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallest = 1e-6;  // below, a makes no difference that a float could show

struct Nodes {
  Doubles at, weight;
};
Nodes MakeNodes() {
  constexpr double kStep = 0.1;
  Nodes nodes;
  for (int k = -36; k <= 180; ++k) {
    double t = kStep * k, u = std::exp(t - std::exp(-t));
    nodes.at.push_back(u);
    nodes.weight.push_back(kStep * u * (1 + std::exp(-t)));
  }
  return nodes;
}

// The lower one, or 1 minus it; a and x are doubles above 0.
Operand RegularGamma(Builder& b, const Operand& a, const Operand& x, bool lower) {
  Nodes nodes = MakeNodes();
  // For large a the integrand is as wide as 1/√a.
  Operand scale = b.Reciprocal(b.Max(b.Sqrt(a), b.NumberLike(1, a)));
  Operand u = b.Mul(b.Unsqueeze(scale, {-1}), DoubleVector(b, nodes.at));
  Operand tall_a = b.Unsqueeze(a, {-1}), tall_x = b.Unsqueeze(x, {-1});
  Operand is_left = b.LessOrEqual(x, a);
  Operand sign = b.Unsqueeze(b.Where(is_left, b.NumberLike(-1, a), b.NumberLike(1, a)), {-1});
  Operand way = b.Min(b.Mul(sign, u), b.NumberLike(700, a));  // e^700 is the end of doubles
  Operand exponent = b.Sub(b.Mul(tall_a, way), b.Mul(tall_x, b.Sub(b.Exp(way), 1)));
  Operand integral = b.Mul(b.MatMul(b.Exp(exponent), DoubleVector(b, nodes.weight)), scale);
  Operand front = b.Exp(b.Sub(b.Sub(b.Mul(a, b.Log(x)), x), LgammaOf(b, a)));
  Operand part = b.Mul(front, integral), rest = b.Sub(1, part);
  return lower ? b.Where(is_left, part, rest) : b.Where(is_left, rest, part);
}

Result IncompleteGamma(Call& c) {
  bool lower = c.op_name() == "igamma";
  return OnDoubles(c, 0, 1, [&](const Operand& a, const Operand& x) {
    Builder& b = c.b;
    Operand safe_a = ClipTo(b, a, kSmallest, 1e30), safe_x = ClipTo(b, x, 1e-300, 1e30);
    Operand zero = b.NumberLike(lower ? 0 : 1, a), one = b.NumberLike(lower ? 1 : 0, a), nan = b.NumberLike(kNaN, a);
    Operand value = RegularGamma(b, safe_a, safe_x, lower);
    Operand a_infinite = b.Equal(a, kInfinity), x_infinite = b.Equal(x, kInfinity);
    value = b.Where(b.Or(b.Equal(x, 0), a_infinite), zero, value);
    value = b.Where(b.Or(b.Equal(a, 0), x_infinite), one, value);
    Operand undefined = b.Or(b.And(a_infinite, x_infinite), b.And(b.Equal(a, 0), b.Equal(x, 0)));
    undefined = b.Or(undefined, b.Or(b.Less(a, 0), b.Less(x, 0)));
    undefined = b.Or(undefined, b.Or(b.IsNaN(a), b.IsNaN(x)));
    return b.Where(undefined, nan, value);
  });
}

constexpr Rule kRules[] = {
    {"igamma(Tensor self, Tensor other)", IncompleteGamma},
    {"igammac(Tensor self, Tensor other)", IncompleteGamma},
};

}  // namespace

std::span<const Rule> IncompleteGammaRules() { return kRules; }

}  // namespace ferry::torch

// Bessel functions and Airy's. Near 0 they are means over an angle, or sums over the nodes of a quadrature that
// converges faster than any power; far out, Hankel's asymptotic series.
#include <cmath>
#include <limits>

#include "torch/lower/families.h"
#include "torch/lower/ops/numerics.h"

namespace ferry::torch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEulerGamma = 0.57721566490153286;

// a_k(ν) = Π (4ν² - (2j-1)²) / (k! 8^k), the coefficients of all asymptotic series here.
Doubles HankelCoefficients(double order, int count) {
  Doubles a = {1};
  for (int k = 1; k < count; ++k)
    a.push_back(a.back() * (4 * order * order - (2.0 * k - 1) * (2.0 * k - 1)) / (8.0 * k));
  return a;
}
Doubles Alternating(Doubles series) {
  for (size_t k = 1; k < series.size(); k += 2) series[k] = -series[k];
  return series;
}

// --- J and Y

constexpr double kHankelFrom = 25;
constexpr int kAngles = 36;  // midpoints of the first quarter of a turn; enough for arguments up to kHankelFrom

// The mean over a turn of function(x sin θ) · weight(θ); what is averaged is the same in every quarter.
Operand OverAngles(Builder& b, const Operand& x, std::string_view function,
                   const std::function<double(double)>& weight) {
  Doubles nodes, weights;
  for (int j = 0; j < kAngles; ++j) {
    double angle = M_PI_2 * (j + 0.5) / kAngles;
    nodes.push_back(std::sin(angle));
    weights.push_back(weight(angle) / kAngles);
  }
  return QuadratureOf(b, x, nodes, weights, [&](const Operand& phase) { return b.Emit(function, {phase}); });
}
// Σ (-1)^k cos(2kθ) / k: with it the mean becomes Neumann's series for Y.
double NeumannWeight(double angle) {
  double sum = 0;
  for (int k = 1; k <= 30; ++k) sum += (k % 2 ? -1.0 : 1.0) * std::cos(2 * k * angle) / k;
  return sum;
}
// The first factor of the far forms: P and Q of Hankel's series, and the phase.
struct Hankel {
  Operand p, q, cosine, sine, amplitude;
};
Hankel HankelOf(Builder& b, const Operand& x, int order) {
  Doubles a = HankelCoefficients(order, 18), even, odd;
  for (size_t k = 0; k < a.size(); k += 2) even.push_back(a[k]), odd.push_back(a[k + 1]);
  Operand inverse = b.Reciprocal(x), square = b.Mul(inverse, inverse);
  Operand phase = b.Sub(x, (order * 0.5 + 0.25) * M_PI);
  return {PolynomialOf(b, square, Alternating(even)), b.Mul(inverse, PolynomialOf(b, square, Alternating(odd))),
          b.Emit("Cos", {phase}), b.Emit("Sin", {phase}), b.Sqrt(b.Mul(inverse, 2 / M_PI))};
}
Operand NearJ(Builder& b, const Operand& x, int order) {
  if (order == 0) return OverAngles(b, x, "Cos", [](double) { return 1.0; });
  return OverAngles(b, x, "Sin", [](double angle) { return std::sin(angle); });
}
// For x ≥ 0.
Operand BesselJ(Builder& b, const Operand& x, int order) {
  auto far = [&](const Operand& y) {
    Hankel h = HankelOf(b, y, order);
    return b.Mul(h.amplitude, b.Sub(b.Mul(h.p, h.cosine), b.Mul(h.q, h.sine)));
  };
  return ByDistance(
      b, x, kHankelFrom, [&](const Operand& y) { return NearJ(b, y, order); }, far);
}
// Y0 = 2/π (ln(x/2) + γ) J0 - 4/π Σ (-1)^k J2k / k, and Y1 = -Y0'.
Operand NearY(Builder& b, const Operand& x, int order) {
  Operand log = b.Add(b.Log(b.Mul(x, 0.5)), kEulerGamma);
  if (order == 0) {
    Operand series = OverAngles(b, x, "Cos", NeumannWeight);
    return b.Sub(b.Mul(b.Mul(log, NearJ(b, x, 0)), 2 / M_PI), b.Mul(series, 4 / M_PI));
  }
  Operand series = OverAngles(b, x, "Sin", [](double angle) { return std::sin(angle) * NeumannWeight(angle); });
  Operand rest = b.Sub(b.Mul(log, NearJ(b, x, 1)), b.Div(NearJ(b, x, 0), x));
  return b.Sub(b.Mul(rest, 2 / M_PI), b.Mul(series, 4 / M_PI));
}
Operand BesselY(Builder& b, const Operand& x, int order) {
  auto far = [&](const Operand& y) {
    Hankel h = HankelOf(b, y, order);
    return b.Mul(h.amplitude, b.Add(b.Mul(h.p, h.sine), b.Mul(h.q, h.cosine)));
  };
  Operand value = ByDistance(
      b, x, kHankelFrom, [&](const Operand& y) { return NearY(b, y, order); }, far);
  value = b.Where(b.Equal(x, 0), b.NumberLike(-kInfinity, x), value);
  return b.Where(b.Less(x, 0), b.NumberLike(kNaN, x), value);
}

// --- I and K

// e^-x I(x) for x ≥ 0: the mean of e^(x (cos θ - 1)) cos(νθ).
Operand ScaledI(Builder& b, const Operand& x, int order) {
  constexpr int kCount = 40;
  constexpr double kBorder = 30;
  auto near = [&](const Operand& y) {
    Doubles nodes, weights;
    for (int j = 0; j < kCount; ++j) {
      double angle = M_PI * (j + 0.5) / kCount;
      nodes.push_back(std::cos(angle) - 1);
      weights.push_back(std::cos(order * angle) / kCount);
    }
    return QuadratureOf(b, y, nodes, weights, [&](const Operand& e) { return b.Exp(e); });
  };
  auto far = [&](const Operand& y) {
    Operand inverse = b.Reciprocal(y);
    Operand series = PolynomialOf(b, inverse, Alternating(HankelCoefficients(order, 16)));
    return b.Mul(b.Sqrt(b.Mul(inverse, 0.5 / M_PI)), series);
  };
  return ByDistance(b, x, kBorder, near, far);
}
// e^x K(x): the trapezoidal rule on ∫ e^(-x (cosh t - 1)) cosh(νt) dt.
Operand ScaledK(Builder& b, const Operand& x, int order) {
  constexpr double kStep = 0.2, kBorder = 20, kTiny = 1e-6;
  constexpr int kCount = 95;
  auto near = [&](const Operand& y) {
    Doubles nodes, weights;
    for (int k = 0; k < kCount; ++k) {
      double t = kStep * k;
      nodes.push_back(1 - std::cosh(t));
      weights.push_back((k == 0 ? 0.5 : 1) * kStep * std::cosh(order * t));
    }
    return QuadratureOf(b, y, nodes, weights, [&](const Operand& e) { return b.Exp(e); });
  };
  auto far = [&](const Operand& y) {
    Operand inverse = b.Reciprocal(y);
    return b.Mul(b.Sqrt(b.Mul(inverse, M_PI_2)), PolynomialOf(b, inverse, HankelCoefficients(order, 16)));
  };
  Operand value = ByDistance(b, b.Max(x, b.NumberLike(kTiny, x)), kBorder, near, far);
  Operand tiny = order == 0 ? b.Sub(-kEulerGamma, b.Log(b.Mul(x, 0.5))) : b.Reciprocal(x);
  value = b.Where(b.Less(x, kTiny), b.Mul(tiny, b.Exp(x)), value);
  value = b.Where(b.Equal(x, 0), b.NumberLike(kInfinity, x), value);
  return b.Where(b.Less(x, 0), b.NumberLike(kNaN, x), value);
}

// --- rules; the last character of an operator's name (before an e for scaled) is its order

int OrderOf(const Call& c) {
  std::string name = c.op_name();
  if (name.ends_with('e')) name.pop_back();
  return name.back() - '0';
}
// An odd function of x from its values for positive ones.
Operand WithSign(Builder& b, const Operand& x, const Operand& value, int order) {
  return order == 1 ? b.Mul(b.Emit("Sign", {x}), value) : value;
}
Result J(Call& c) {
  int order = OrderOf(c);
  return OnDoubles(c, 0, [&](const Operand& x) { return WithSign(c.b, x, BesselJ(c.b, c.b.Abs(x), order), order); });
}
Result Y(Call& c) {
  return OnDoubles(c, 0, [&](const Operand& x) { return BesselY(c.b, x, OrderOf(c)); });
}
Result I(Call& c) {
  int order = OrderOf(c);
  bool is_scaled = c.op_name().ends_with('e');
  return OnDoubles(c, 0, [&](const Operand& x) {
    Operand magnitude = c.b.Abs(x), value = ScaledI(c.b, magnitude, order);
    if (!is_scaled) value = c.b.Mul(value, c.b.Exp(magnitude));
    return WithSign(c.b, x, value, order);
  });
}
Result K(Call& c) {
  bool is_scaled = c.op_name().starts_with("special_scaled");
  return OnDoubles(c, 0, [&](const Operand& x) {
    Operand value = ScaledK(c.b, x, OrderOf(c));
    return is_scaled ? value : c.b.Mul(value, c.b.Exp(c.b.Neg(x)));
  });
}
Result SphericalJ0(Call& c) {
  return OnDoubles(c, 0, [&](const Operand& x) {
    Operand square = c.b.Mul(x, x);
    Operand near = PolynomialOf(c.b, square, {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800});
    Operand value = c.b.Where(c.b.Less(square, 0.25), near, c.b.Div(c.b.Emit("Sin", {x}), x));
    return c.b.Where(c.b.Equal(c.b.Abs(x), kInfinity), c.b.NumberLike(0, x), value);
  });
}

// Airy's function: its power series in the middle, asymptotic series on both sides.
Operand AirySeries(Builder& b, const Operand& x) {
  constexpr int kTerms = 40;
  Doubles even = {0.35502805388781724}, odd = {-0.25881940379280680};  // Ai(0), Ai'(0)
  for (int k = 1; k < kTerms; ++k) {
    even.push_back(even.back() / ((3.0 * k - 1) * (3.0 * k)));
    odd.push_back(odd.back() / ((3.0 * k) * (3.0 * k + 1)));
  }
  Operand cube = b.Mul(b.Mul(x, x), x);
  return b.Add(PolynomialOf(b, cube, even), b.Mul(x, PolynomialOf(b, cube, odd)));
}
Doubles AiryCoefficients() {
  Doubles u = {1};
  for (int k = 1; k < 16; ++k)
    u.push_back(u.back() * (6.0 * k - 5) * (6.0 * k - 3) * (6.0 * k - 1) / (216.0 * k * (2 * k - 1)));
  return u;
}
Result AiryAi(Call& c) {
  constexpr double kBorder = 6;
  return OnDoubles(c, 0, [&](const Operand& x) {
    Builder& b = c.b;
    Operand magnitude = b.Max(b.Abs(x), b.NumberLike(kBorder, x)), root = b.Sqrt(magnitude);
    Operand zeta = b.Mul(b.Mul(magnitude, root), 2.0 / 3), inverse = b.Reciprocal(zeta);
    Operand amplitude = b.Reciprocal(b.Mul(b.Sqrt(root), std::sqrt(M_PI)));
    Doubles u = AiryCoefficients(), even, odd;
    for (size_t k = 0; k < u.size(); k += 2) even.push_back(u[k]), odd.push_back(u[k + 1]);
    Operand right = b.Mul(b.Mul(b.Mul(amplitude, 0.5), b.Exp(b.Neg(zeta))), PolynomialOf(b, inverse, Alternating(u)));
    Operand square = b.Mul(inverse, inverse), phase = b.Sub(zeta, M_PI_4);
    Operand cosine = b.Mul(b.Emit("Cos", {phase}), PolynomialOf(b, square, Alternating(even)));
    Operand sine = b.Mul(b.Emit("Sin", {phase}), b.Mul(inverse, PolynomialOf(b, square, Alternating(odd))));
    Operand left = b.Mul(amplitude, b.Add(cosine, sine));
    Operand middle = AirySeries(b, ClipTo(b, x, -kBorder, kBorder));
    Operand value = b.Where(b.Greater(x, kBorder), right, b.Where(b.Less(x, -kBorder), left, middle));
    return b.Where(b.Equal(b.Abs(x), kInfinity), b.NumberLike(kNaN, x), value);  // so says PyTorch
  });
}

constexpr Rule kRules[] = {
    {"special_bessel_j0(Tensor self)", J},
    {"special_bessel_j1(Tensor self)", J},
    {"special_bessel_y0(Tensor self)", Y},
    {"special_bessel_y1(Tensor self)", Y},
    {"i0(Tensor self)", I},
    {"special_i0e(Tensor self)", I},
    {"special_i1(Tensor self)", I},
    {"special_i1e(Tensor self)", I},
    {"special_modified_bessel_i0(Tensor self)", I},
    {"special_modified_bessel_i1(Tensor self)", I},
    {"special_modified_bessel_k0(Tensor self)", K},
    {"special_modified_bessel_k1(Tensor self)", K},
    {"special_scaled_modified_bessel_k0(Tensor x)", K},
    {"special_scaled_modified_bessel_k1(Tensor x)", K},
    {"special_spherical_bessel_j0(Tensor x)", SphericalJ0},
    {"special_airy_ai(Tensor x)", AiryAi},
};

}  // namespace

std::span<const Rule> BesselRules() { return kRules; }

}  // namespace ferry::torch

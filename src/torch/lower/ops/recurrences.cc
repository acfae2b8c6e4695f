// What is computed by a recurrence: orthogonal polynomials whose degree is a tensor, and common divisors.
#include <limits>

#include "torch/lower/families.h"
#include "torch/lower/ops/loops.h"

namespace ferry::torch {
namespace {

// One step: the polynomial of degree k + 1 from those of degrees k (q) and k - 1 (p). k is a number of x's type.
struct Step {
  Builder& b;
  Operand x, k, p, q;
};
struct Family {
  Operand (*first)(Builder& b, const Operand& x);  // of degree 1; degree 0 is always 1
  Operand (*next)(const Step& s);
  bool is_hermite = false;  // PyTorch gives NaN for large degrees
};

Operand TwiceXMinus(const Step& s) { return s.b.Sub(s.b.Mul(s.b.Mul(s.x, 2), s.q), s.p); }
Operand Itself(Builder&, const Operand& x) { return x; }
Operand Twice(Builder& b, const Operand& x) { return b.Mul(x, 2); }
Operand TwiceLess1(Builder& b, const Operand& x) { return b.Sub(b.Mul(x, 2), 1); }
Operand TwiceAnd1(Builder& b, const Operand& x) { return b.Add(b.Mul(x, 2), 1); }
Operand OneLess(Builder& b, const Operand& x) { return b.Sub(1, x); }
Operand HermiteH(const Step& s) { return s.b.Sub(s.b.Mul(s.b.Mul(s.x, 2), s.q), s.b.Mul(s.b.Mul(s.k, 2), s.p)); }
Operand HermiteHe(const Step& s) { return s.b.Sub(s.b.Mul(s.x, s.q), s.b.Mul(s.k, s.p)); }
Operand Laguerre(const Step& s) {
  Operand slope = s.b.Sub(s.b.Add(s.b.Mul(s.k, 2), 1), s.x);
  return s.b.Div(s.b.Sub(s.b.Mul(slope, s.q), s.b.Mul(s.k, s.p)), s.b.Add(s.k, 1));
}
Operand Legendre(const Step& s) {
  Operand slope = s.b.Mul(s.b.Add(s.b.Mul(s.k, 2), 1), s.x);
  return s.b.Div(s.b.Sub(s.b.Mul(slope, s.q), s.b.Mul(s.k, s.p)), s.b.Add(s.k, 1));
}

Family FamilyOf(std::string_view name) {
  if (name.find("hermite_polynomial_he") != name.npos) return {Itself, HermiteHe, true};
  if (name.find("hermite_polynomial_h") != name.npos) return {Twice, HermiteH, true};
  if (name.find("laguerre") != name.npos) return {OneLess, Laguerre};
  if (name.find("legendre") != name.npos) return {Itself, Legendre};
  switch (name.back()) {
    case 't': return {Itself, TwiceXMinus};
    case 'u': return {Twice, TwiceXMinus};
    case 'v': return {TwiceLess1, TwiceXMinus};
    default: return {TwiceAnd1, TwiceXMinus};
  }
}

// All degrees up to the largest are passed through; each element keeps the one it asks for.
Result Polynomial(Call& c) {
  Builder& b = c.b;
  std::string name = c.op_name();
  Family family = FamilyOf(name);
  DType dtype = FloatingResult(ResultType({c.Any(0), c.Any(1)}));
  Operands o = c.PromotedTo(dtype, {0, 1});
  Operand shape = b.ShapeOf(b.Add(o[0], o[1]));
  Operand x = b.Expand(o[0], shape), degree = b.Expand(b.Cast(o[1], DType::kInt64), shape);
  if (x.static_shape() && x.static_shape()->ElementCount() == 0) return x;
  if (name.find("shifted") != name.npos) x = TwiceLess1(b, x);
  Operand one = b.Fill(1, dtype, shape), first = b.ExpandLike(family.first(b, x), one);
  Operand largest = b.Reduce("ReduceMax", degree, {}, false);
  int64_t limit = dtype == DType::kDouble ? 512 : 128;
  if (family.is_hermite) largest = b.Min(largest, b.Int(limit));
  Operand start = b.Where(b.Equal(degree, b.Int(0)), one, first);
  Operand steps = b.Max(b.Sub(largest, b.Int(1)), b.Int(0));
  Operand value =
      Repeat(b, steps, {one, first, start}, [&](Builder& inner, const Operand& iteration, const Operands& before) {
        Operand k = inner.Add(iteration, inner.Int(1));
        Step step{inner, x, inner.Cast(k, dtype), before[0], before[1]};
        Operand next = family.next(step);
        Operand wanted = inner.Equal(degree, inner.Add(k, inner.Int(1)));
        return Operands{before[1], next, inner.Where(wanted, next, before[2])};
      })[2];
  if (family.is_hermite)
    value = b.Where(b.Greater(degree, b.Int(limit)), b.Number(std::numeric_limits<double>::quiet_NaN(), dtype), value);
  return b.Where(b.Less(degree, b.Int(0)), b.Number(0, dtype), value);
}

// Euclid's algorithm on all elements until the last one is done.
Operand Divisor(Builder& b, const Operand& x, const Operand& y) {
  Operand shape = b.ShapeOf(b.Add(x, y));
  Operands start = {b.Abs(b.Expand(x, shape)), b.Abs(b.Expand(y, shape))};
  auto goes_on = [](Builder& inner, const Operands& values) {
    Operand open = inner.Cast(inner.Not(inner.Equal(values[1], 0)), DType::kInt64);
    return inner.Greater(inner.Reduce("ReduceMax", open, {}, false), inner.Int(0));
  };
  auto next = [](Builder& inner, const Operand&, const Operands& values) {
    Operand done = inner.Equal(values[1], 0);
    Operand divisor = inner.Where(done, inner.NumberLike(1, values[1]), values[1]);
    Operand rest = inner.Emit("Mod", {values[0], divisor});
    return Operands{inner.Where(done, values[0], values[1]), inner.Where(done, values[1], rest)};
  };
  return RepeatWhile(b, start, goes_on, next)[0];
}
Result GcdLcm(Call& c) {
  Operands o = c.Promoted({0, 1});
  Operand sum = c.b.Add(o[0], o[1]);
  if (sum.static_shape() && sum.static_shape()->ElementCount() == 0) return sum;
  Operand x = c.b.Cast(o[0], DType::kInt64), y = c.b.Cast(o[1], DType::kInt64), divisor = Divisor(c.b, x, y);
  if (c.op_name() == "gcd") return c.b.Cast(divisor, o[0].dtype());
  Operand safe = c.b.Where(c.b.Equal(divisor, 0), c.b.Int(1), divisor);
  return c.b.Cast(c.b.Abs(c.b.Mul(c.b.Div(x, safe), y)), o[0].dtype());
}

constexpr Rule kRules[] = {
    {"special_chebyshev_polynomial_t.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_chebyshev_polynomial_u.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_chebyshev_polynomial_v.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_chebyshev_polynomial_w.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_shifted_chebyshev_polynomial_t.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_shifted_chebyshev_polynomial_u.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_shifted_chebyshev_polynomial_v.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_shifted_chebyshev_polynomial_w.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_hermite_polynomial_h.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_hermite_polynomial_he.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_laguerre_polynomial_l.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"special_legendre_polynomial_p.default,x_scalar,n_scalar(Any x, Any n)", Polynomial},
    {"gcd(Tensor self, Tensor other)", GcdLcm},
    {"lcm(Tensor self, Tensor other)", GcdLcm},
};

}  // namespace

std::span<const Rule> RecurrenceRules() { return kRules; }

}  // namespace ferry::torch

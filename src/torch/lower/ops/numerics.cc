#include "torch/lower/ops/numerics.h"

#include <cmath>
#include <limits>

namespace ferry::torch {

Operand DoubleVector(Builder& b, const Doubles& values) { return b.Constant(Tensor::FromVector<double>(values)); }

Operand PolynomialOf(Builder& b, const Operand& x, const Doubles& coefficients) {
  Operand sum = b.NumberLike(coefficients.back(), x);
  for (size_t k = coefficients.size() - 1; k-- > 0;) sum = b.Add(b.Mul(sum, x), coefficients[k]);
  return sum;
}

Operand QuadratureOf(Builder& b, const Operand& x, const Doubles& nodes, const Doubles& weights,
                     const std::function<Operand(const Operand&)>& function) {
  Operand values = function(b.Mul(b.Unsqueeze(x, {-1}), DoubleVector(b, nodes)));
  return b.MatMul(values, DoubleVector(b, weights));
}

Operand ClipTo(Builder& b, const Operand& x, double lowest, double highest) {
  return b.Emit("Clip", {x, b.NumberLike(lowest, x), b.NumberLike(highest, x)});
}

Operand ByDistance(Builder& b, const Operand& x, double border, const std::function<Operand(const Operand&)>& near,
                   const std::function<Operand(const Operand&)>& far) {
  Operand inside = near(b.Min(x, b.NumberLike(border, x))), outside = far(b.Max(x, b.NumberLike(border, x)));
  return b.Where(b.LessOrEqual(x, border), inside, outside);
}

Operand SinPiOf(Builder& b, const Operand& x) {
  // Two half turns have the sign of none: the rest of a division by 2 is exact.
  Operand rest = b.Sub(x, b.Mul(b.Floor(b.Mul(x, 0.5)), 2));
  Operand whole = b.Equal(rest, b.Floor(rest));
  return b.Where(whole, b.NumberLike(0, x), b.Emit("Sin", {b.Mul(rest, M_PI)}));
}

Operand OnDoubles(Call& c, size_t argument, const std::function<Operand(const Operand&)>& function) {
  Operand x = c.FloatTensor(argument), wide = c.b.Cast(x, DType::kDouble);
  Operand y = function(wide);
  return c.b.CastLike(c.b.Where(c.b.IsNaN(wide), wide, y), x);
}

Operand OnDoubles(Call& c, size_t first, size_t second,
                  const std::function<Operand(const Operand&, const Operand&)>& function) {
  DType dtype = FloatingResult(ResultType({c.Any(first), c.Any(second)}));
  Operands o = c.PromotedTo(dtype, {first, second});
  return c.b.Cast(function(c.b.Cast(o[0], DType::kDouble), c.b.Cast(o[1], DType::kDouble)), dtype);
}

}  // namespace ferry::torch

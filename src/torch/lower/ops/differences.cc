// Differences, integrals, distances, covariance.
#include <cmath>
#include <limits>
#include <numeric>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

Operand First(Call& c, const Operand& x, int64_t axis) { return c.b.Slice(x, axis, Scalar(0), Scalar(-1)); }
Operand Rest(Call& c, const Operand& x, int64_t axis) { return c.b.Slice(x, axis, Scalar(1), Scalar(INT64_MAX)); }

Operand StepOf(Call& c, const Operand& x, int64_t axis) {
  Operand after = Rest(c, x, axis), before = First(c, x, axis);
  if (x.dtype() == DType::kBool) return c.b.Xor(after, before);
  return x.is_complex() ? c.b.Sub(after.AsPairs(), before.AsPairs()).AsComplex() : c.b.Sub(after, before);
}
Result Diff(Call& c) {
  Operand x = c.Tensor(0);
  int64_t axis = c.Int(2);
  Operands parts;
  if (!c.IsNone(3)) parts.push_back(c.Tensor(3));
  parts.push_back(x);
  if (!c.IsNone(4)) parts.push_back(c.Tensor(4));
  std::vector<TensorOrNumber> values(parts.begin(), parts.end());
  DType dtype = ResultType(values);
  for (Operand& part : parts) part = c.b.Cast(part, dtype);
  x = c.b.Concat(parts, axis);
  int64_t steps = c.Int(1);
  RequireFewNodes(static_cast<double>(steps));
  for (int64_t i = 0; i < steps; ++i) x = StepOf(c, x, axis);
  return x;
}

// Central differences inside, one-sided ones of the given order at the edges. Spacing is a number, or a tensor of
// places.
Operand GradientAlong(Call& c, const Operand& y, int64_t axis, double spacing, const Operand& places,
                      int64_t edge_order) {
  Builder& b = c.b;
  auto at = [&](const Operand& x, int64_t begin, int64_t end) {
    return b.Slice(x, axis, Scalar(begin), end == 0 ? Scalar(INT64_MAX) : Scalar(end));
  };
  if (places) {
    std::vector<int64_t> shape(y.rank(), 1);
    shape[y.Axis(axis)] = -1;
    Operand x = b.Reshape(b.CastLike(places, y), shape);
    Operand step = b.Sub(at(x, 1, 0), at(x, 0, -1));
    Operand h1 = at(step, 0, -1), h2 = at(step, 1, 0), total = b.Add(h1, h2);
    Operand a = b.Div(b.Neg(h2), b.Mul(h1, total)), m = b.Div(b.Sub(h2, h1), b.Mul(h1, h2)),
            z = b.Div(h1, b.Mul(h2, total));
    Operand inner = b.Add(b.Add(b.Mul(a, at(y, 0, -2)), b.Mul(m, at(y, 1, -1))), b.Mul(z, at(y, 2, 0)));
    Operand first, last;
    if (edge_order == 1) {
      first = b.Div(b.Sub(at(y, 1, 2), at(y, 0, 1)), at(step, 0, 1));
      last = b.Div(b.Sub(at(y, -1, 0), at(y, -2, -1)), at(step, -1, 0));
    } else {
      Operand d1 = at(step, 0, 1), d2 = at(step, 1, 2), d = b.Add(d1, d2);
      first = b.Add(b.Add(b.Mul(b.Div(b.Neg(b.Add(b.Add(d1, d1), d2)), b.Mul(d1, d)), at(y, 0, 1)),
                          b.Mul(b.Div(d, b.Mul(d1, d2)), at(y, 1, 2))),
                    b.Mul(b.Div(b.Neg(d1), b.Mul(d2, d)), at(y, 2, 3)));
      Operand e1 = at(step, -2, -1), e2 = at(step, -1, 0), e = b.Add(e1, e2);
      last = b.Add(
          b.Add(b.Mul(b.Div(e2, b.Mul(e1, e)), at(y, -3, -2)), b.Mul(b.Div(b.Neg(e), b.Mul(e1, e2)), at(y, -2, -1))),
          b.Mul(b.Div(b.Add(b.Add(e2, e2), e1), b.Mul(e2, e)), at(y, -1, 0)));
    }
    return b.Concat({first, inner, last}, axis);
  }
  Operand inner = b.Div(b.Sub(at(y, 2, 0), at(y, 0, -2)), 2 * spacing), first, last;
  if (edge_order == 1) {
    first = b.Div(b.Sub(at(y, 1, 2), at(y, 0, 1)), spacing);
    last = b.Div(b.Sub(at(y, -1, 0), at(y, -2, -1)), spacing);
  } else {
    first = b.Div(b.Sub(b.Sub(b.Mul(at(y, 1, 2), 4), b.Mul(at(y, 0, 1), 3)), at(y, 2, 3)), 2 * spacing);
    last = b.Div(b.Add(b.Sub(b.Mul(at(y, -1, 0), 3), b.Mul(at(y, -2, -1), 4)), at(y, -3, -2)), 2 * spacing);
  }
  return b.Concat({first, inner, last}, axis);
}
// Arguments: self, spacing (none, a number, numbers, tensors), dim (none, one, several), edge_order.
Result Gradient(Call& c, bool has_spacing, size_t dim_at, size_t edge_at) {
  Operand x = c.b.ToFloat(c.Tensor(0));
  std::vector<int64_t> axes = c.Ints(dim_at);
  if (axes.empty()) {
    axes.resize(x.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::vector<double> numbers(axes.size(), 1.0);
  Operands places(axes.size());
  if (has_spacing && !c.IsNone(1)) {
    const Arg::List* list = c.arg(1).get<Arg::List>();
    bool tensors = list && !list->empty() && !(*list)[0].get<Scalar>();
    if (tensors) {
      Operands given = c.Tensors(1);
      for (size_t i = 0; i < axes.size(); ++i) places[i] = given.at(given.size() == 1 ? 0 : i);
    } else {
      std::vector<Scalar> given = c.Numbers(1);
      for (size_t i = 0; i < axes.size(); ++i) numbers[i] = given.at(given.size() == 1 ? 0 : i).AsDouble();
    }
  }
  Operands results;
  for (size_t i = 0; i < axes.size(); ++i)
    results.push_back(GradientAlong(c, x, axes[i], numbers[i], places[i], c.Int(edge_at)));
  return results;
}
Result GradientSpaced(Call& c) { return Gradient(c, true, 2, 3); }
Result GradientPlain(Call& c) { return Gradient(c, false, 1, 2); }

// Means of neighbours times their distance.
Operand Trapezoids(Call& c, const Operand& y, int64_t axis, const Operand& x, double dx) {
  Operand sums = c.b.Add(Rest(c, y, axis), First(c, y, axis));
  if (!x) return c.b.Mul(sums, dx / 2);
  Operand places = x;
  if (x.rank() == 1 && y.rank() > 1) {
    std::vector<int64_t> shape(y.rank(), 1);
    shape[y.Axis(axis)] = -1;
    places = c.b.Reshape(x, shape);
  }
  Operand steps = c.b.Sub(Rest(c, places, axis), First(c, places, axis));
  return c.b.Mul(c.b.Mul(sums, c.b.CastLike(steps, sums)), 0.5);
}
Operand ToSum(Call& c, const Operand& y) { return c.b.ToFloat(y); }
Result TrapezoidX(Call& c) {
  return c.b.Reduce("ReduceSum", Trapezoids(c, ToSum(c, c.Tensor(0)), c.Int(2), c.Tensor(1), 1), {c.Int(2)}, false);
}
Result TrapezoidDx(Call& c) {
  return c.b.Reduce("ReduceSum", Trapezoids(c, ToSum(c, c.Tensor(0)), c.Int(2), {}, c.Float(1)), {c.Int(2)}, false);
}
Operand Accumulated(Call& c, const Operand& x, int64_t axis) {
  return c.b.Widened("CumSum", {x, c.b.Int(static_cast<int64_t>(x.Axis(axis)))});
}
Result CumulativeTrapezoidX(Call& c) {
  return Accumulated(c, Trapezoids(c, ToSum(c, c.Tensor(0)), c.Int(2), c.Tensor(1), 1), c.Int(2));
}
Result CumulativeTrapezoidDx(Call& c) {
  return Accumulated(c, Trapezoids(c, ToSum(c, c.Tensor(0)), c.Int(2), {}, c.Float(1)), c.Int(2));
}

Result Dist(Call& c) {
  Operands o = c.Promoted({0, 1});
  return NormAlong(c.b, c.b.Sub(o[0], o[1]), c.Float(2), {}, false);
}
// Every row of one against every row of the other.
Result CDist(Call& c) {
  Operands o = c.Promoted({0, 1});
  return NormAlong(c.b, c.b.Sub(c.b.Unsqueeze(o[0], {-2}), c.b.Unsqueeze(o[1], {-3})), c.Float(2), {-1}, false);
}
// Every row against every later one.
Result PDist(Call& c) {
  Operand x = c.Tensor(0);
  Dim rows = x.dim(0);
  if (!rows.known()) c.Unsupported("the number of rows is not known");
  RequireFewPositions(static_cast<double>(*rows.value) * static_cast<double>(*rows.value));
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < *rows.value; ++i)
    for (int64_t j = i + 1; j < *rows.value; ++j) {
      first.push_back(i);
      second.push_back(j);
    }
  return NormAlong(c.b, c.b.Sub(c.b.Gather(x, c.b.Ints(first), 0), c.b.Gather(x, c.b.Ints(second), 0)), c.Float(1),
                   {-1}, false);
}
// Slices along one axis that are longer than maxnorm are shortened to it.
Result Renorm(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < x.rank(); ++i)
    if (i != x.Axis(c.Int(2))) axes.push_back(static_cast<int64_t>(i));
  Operand norm = NormAlong(c.b, x, c.Float(1), axes, true);
  double limit = c.Float(3);
  Operand factor = c.b.Div(limit, c.b.Add(norm, 1e-7));
  return c.b.Mul(x, c.b.Where(c.b.Greater(norm, limit), factor, c.b.NumberLike(1, x)));
}

Operand CovarianceOf(Call& c, Operand x, double correction, const Operand& frequency, const Operand& importance) {
  Builder& b = c.b;
  x = b.ToFloat(x);
  if (x.rank() < 2) x = b.Reshape(x, {1, -1});
  Operand weight;
  if (frequency) weight = b.CastLike(frequency, x);
  if (importance) weight = weight ? b.Mul(weight, b.CastLike(importance, x)) : b.CastLike(importance, x);
  Operand total, mean;
  if (weight) {
    total = b.Reduce("ReduceSum", weight, {}, false);
    mean = b.Div(b.Reduce("ReduceSum", b.Mul(x, weight), {1}, true), total);
  } else {
    total = b.CastLike(b.AsRank0(b.SizeOf(x, 1)), x);
    mean = b.Reduce("ReduceMean", x, {1}, true);
  }
  Operand divisor = b.Sub(total, correction);
  if (weight && importance && correction != 0) {
    Operand squares = b.Reduce("ReduceSum", b.Mul(weight, b.CastLike(importance, x)), {}, false);
    divisor = b.Sub(total, b.Mul(b.Div(squares, total), correction));
  }
  Operand centred = b.Sub(x, mean), other = weight ? b.Mul(centred, weight) : centred;
  Operand product = b.MatMul(centred, b.SwapAxes(other, 0, 1));
  return b.Div(product, b.Max(divisor, b.NumberLike(0, x)));
}
// Of a single variable it is a number.
Operand AsMatrix(Call& c, const Operand& covariance, const Operand& x) {
  bool is_single = x.rank() < 2 || SameDim(covariance.dim(0), Dim(1));
  return is_single ? c.b.Reshape(covariance, std::vector<int64_t>{}) : covariance;
}
Result Cov(Call& c) {
  Operand x = c.Tensor(0);
  return AsMatrix(c, CovarianceOf(c, x, c.Float(1), c.MaybeTensor(2), c.MaybeTensor(3)), x);
}
Result CorrCoef(Call& c) {
  Operand x = c.Tensor(0);
  Operand covariance = CovarianceOf(c, x, 1, {}, {});
  Dim rows = covariance.dim(0);
  if (!rows.known()) c.Unsupported("the number of rows is not known");
  RequireFewPositions(static_cast<double>(*rows.value));
  std::vector<int64_t> diagonal;
  for (int64_t i = 0; i < *rows.value; ++i) diagonal.push_back(i * *rows.value + i);
  Operand deviation = c.b.Sqrt(c.b.Gather(c.b.Reshape(covariance, {-1}), c.b.Ints(diagonal), 0));
  Operand r = c.b.Div(c.b.Div(covariance, c.b.Unsqueeze(deviation, {1})), deviation);
  return AsMatrix(c, c.b.Widened("Clip", {r, c.b.NumberLike(-1, r), c.b.NumberLike(1, r)}), x);
}
// Powers x^0 … x^(n-1), or the other way round.
Operand VanderOf(Call& c, const Operand& x, int64_t count, bool increasing) {
  RequireFewPositions(static_cast<double>(count));
  std::vector<double> powers;
  for (int64_t i = 0; i < count; ++i) powers.push_back(static_cast<double>(increasing ? i : count - 1 - i));
  Operand base = IsFloating(x.dtype()) ? x : c.b.Cast(x, DType::kInt64);
  Operand exponent = c.b.CastLike(c.b.Constant(Tensor::FromVector<double>(powers)), base);
  return c.b.Pow(c.b.Unsqueeze(base, {-1}), exponent);
}
int64_t CountOr(Call& c, const Operand& x, size_t i) {
  if (!c.IsNone(i)) return c.Int(i);
  if (!x.dim(-1).known()) c.Unsupported("how many powers is not known");
  return *x.dim(-1).value;
}
Result Vander(Call& c) { return VanderOf(c, c.Tensor(0), CountOr(c, c.Tensor(0), 1), c.Bool(2)); }
Result LinalgVander(Call& c) {
  Operand x = c.Tensor(0).rank() == 0 ? c.b.Reshape(c.Tensor(0), {1}) : c.Tensor(0);
  return VanderOf(c, x, CountOr(c, x, 1), true);
}

constexpr Rule kRules[] = {
    {"diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None)", Diff, RuleKind::kPlain,
     kComplexToo},
    {"gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1)", GradientSpaced},
    {"gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1)", GradientSpaced},
    {"gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1)", GradientSpaced},
    {"gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1)", GradientSpaced},
    {"gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1)", GradientSpaced},
    {"gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1)", GradientSpaced},
    {"gradient.array(Tensor self, *, int[] dim, int edge_order=1)", GradientPlain},
    {"trapezoid.x(Tensor y, Tensor x, *, int dim=-1)", TrapezoidX},
    {"trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1)", TrapezoidDx},
    {"trapz.x(Tensor y, Tensor x, *, int dim=-1)", TrapezoidX},
    {"trapz.dx(Tensor y, *, Scalar dx=1, int dim=-1)", TrapezoidDx},
    {"cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1)", CumulativeTrapezoidX},
    {"cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1)", CumulativeTrapezoidDx},
    {"dist(Tensor self, Tensor other, Scalar p=2)", Dist},
    {"cdist(Tensor x1, Tensor x2, float p=2.0, int? compute_mode=None)", CDist},
    {"_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode)", CDist},
    {"pdist(Tensor self, float p=2.0)", PDist},
    {"_pdist_forward(Tensor self, float p=2.0)", PDist},
    {"renorm(Tensor self, Scalar p, int dim, Scalar maxnorm)", Renorm},
    {"cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None)", Cov},
    {"corrcoef(Tensor self)", CorrCoef},
    {"vander(Tensor x, int? N=None, bool increasing=False)", Vander},
    {"linalg_vander(Tensor x, *, SymInt? N=None)", LinalgVander},
};

}  // namespace

std::span<const Rule> DifferenceRules() { return kRules; }

}  // namespace ferry::torch

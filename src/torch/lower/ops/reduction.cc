// Reductions along axes, and running ones.
#include <cmath>
#include <limits>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Complex sums and means are those of the parts.
Operand ReduceParts(Call& c, const char* op_type, const Operand& x, const std::vector<int64_t>& axes, bool keep_dims) {
  if (!x.is_complex()) return c.b.Reduce(op_type, x, axes, keep_dims);
  std::vector<int64_t> real_axes;
  for (size_t axis = 0; axis < x.rank(); ++axis) real_axes.push_back(static_cast<int64_t>(axis));
  if (!axes.empty()) {
    real_axes.clear();
    for (int64_t axis : axes) real_axes.push_back(static_cast<int64_t>(x.Axis(axis)));
  }
  if (real_axes.empty()) return x;
  return c.b.Reduce(op_type, x.AsPairs(), real_axes, keep_dims).AsComplex();
}

// The type that sums and products of integers are computed in.
DType SumType(Call& c, const Operand& x, size_t dtype_at) {
  bool integral = IsInteger(x.dtype()) || x.dtype() == DType::kBool;
  return c.Type(dtype_at, integral ? DType::kInt64 : x.dtype());
}
Operand SumOf(Call& c, const Operand& x, const std::vector<int64_t>& axes, bool keep_dims) {
  return ReduceParts(c, "ReduceSum", x, axes, keep_dims);
}
Result Sum(Call& c) {
  Operand x = c.Tensor(0);
  return SumOf(c, c.b.Cast(x, SumType(c, x, 1)), {}, false);
}
Result SumDims(Call& c) {
  Operand x = c.Tensor(0);
  return SumOf(c, c.b.Cast(x, SumType(c, x, 3)), c.Ints(1), c.Bool(2));
}
Result Mean(Call& c) {
  return ReduceParts(c, "ReduceMean", c.b.Cast(c.Tensor(0), c.Type(1, c.Tensor(0).dtype())), {}, false);
}
Result MeanDims(Call& c) {
  return ReduceParts(c, "ReduceMean", c.b.Cast(c.Tensor(0), c.Type(3, c.Tensor(0).dtype())), c.Ints(1), c.Bool(2));
}
Operand ZeroForNaN(Call& c, const Operand& x) {
  return IsFloating(x.dtype()) ? c.b.Where(c.b.IsNaN(x), c.b.NumberLike(0, x), x) : x;
}
Result NanSum(Call& c) {
  Operand x = c.Tensor(0);
  return SumOf(c, c.b.Cast(ZeroForNaN(c, x), SumType(c, x, 3)), c.Ints(1), c.Bool(2));
}
Result NanMean(Call& c) {
  Operand x = c.b.Cast(c.Tensor(0), c.Type(3, c.Tensor(0).dtype()));
  Operand counted = c.b.CastLike(c.b.Not(c.b.IsNaN(x)), x);
  return c.b.Div(SumOf(c, ZeroForNaN(c, x), c.Ints(1), c.Bool(2)), SumOf(c, counted, c.Ints(1), c.Bool(2)));
}
Result Prod(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.Reduce("ReduceProd", c.b.Cast(x, SumType(c, x, 1)), {}, false);
}
Result ProdDim(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.Reduce("ReduceProd", c.b.Cast(x, SumType(c, x, 3)), {c.Int(1)}, c.Bool(2));
}

// Extremes in the operand's own type, also where ONNX has only wider ones.
Operand ExtremeOf(Call& c, const char* op_type, const Operand& x, const std::vector<int64_t>& axes, bool keep_dims) {
  if (c.b.Takes(op_type, x.dtype())) return c.b.Reduce(op_type, x, axes, keep_dims);
  return c.b.CastLike(
      c.b.Reduce(op_type, c.b.Cast(x, IsFloating(x.dtype()) ? DType::kFloat : DType::kInt32), axes, keep_dims), x);
}
const char* ExtremeName(Call& c) { return c.op_name().find("max") != std::string::npos ? "ReduceMax" : "ReduceMin"; }
Result Extreme(Call& c) { return ExtremeOf(c, ExtremeName(c), c.Tensor(0), {}, false); }
Result ExtremeDims(Call& c) { return ExtremeOf(c, ExtremeName(c), c.Tensor(0), c.Ints(1), c.Bool(2)); }
Result AMinMax(Call& c) {
  std::vector<int64_t> axes = c.Ints(1);
  Operand x = c.Tensor(0);
  return Operands{ExtremeOf(c, "ReduceMin", x, axes, c.Bool(2)), ExtremeOf(c, "ReduceMax", x, axes, c.Bool(2))};
}
Operand ArgExtremeOf(Call& c, bool largest, const Operand& x, int64_t axis, bool keep_dims) {
  const char* op_type = largest ? "ArgMax" : "ArgMin";
  Operand input =
      c.b.Takes(op_type, x.dtype()) ? x : c.b.Cast(x, IsFloating(x.dtype()) ? DType::kFloat : DType::kInt32);
  if (x.rank() == 0) return c.b.Int(0);
  return c.b.Emit(op_type, {input}, {{"axis", static_cast<int64_t>(x.Axis(axis))}, {"keepdims", int64_t{keep_dims}}});
}
Result ExtremeWithIndex(Call& c) {
  Operand x = c.Tensor(0);
  bool largest = c.op_name() == "max";
  return Operands{ExtremeOf(c, ExtremeName(c), x, {c.Int(1)}, c.Bool(2)),
                  ArgExtremeOf(c, largest, x, c.Int(1), c.Bool(2))};
}
Result ArgExtreme(Call& c) {
  Operand x = c.Tensor(0);
  bool largest = c.op_name() == "argmax";
  if (!c.IsNone(1)) return ArgExtremeOf(c, largest, x, c.Int(1), c.Bool(2));
  Operand index = ArgExtremeOf(c, largest, c.b.Reshape(x, {-1}), 0, false);
  return c.Bool(2) ? c.b.Reshape(index, std::vector<int64_t>(x.rank(), 1)) : index;
}

Operand AnyAllOf(Call& c, const Operand& x, const std::vector<int64_t>& axes, bool keep_dims) {
  const char* op_type = c.op_name() == "any" ? "ReduceMax" : "ReduceMin";
  Operand truth = c.b.Cast(x, DType::kBool);
  // The largest of no integers is the smallest there is, which is not zero.
  Operand result = c.op_name() == "any" && !c.b.Takes(op_type, DType::kBool)
                       ? c.b.Greater(c.b.Reduce(op_type, c.b.Cast(truth, DType::kInt32), axes, keep_dims), 0)
                       : ExtremeOf(c, op_type, truth, axes, keep_dims);
  return x.dtype() == DType::kUInt8 ? c.b.Cast(result, DType::kUInt8) : result;  // as PyTorch always had it
}
Result AnyAll(Call& c) { return AnyAllOf(c, c.Tensor(0), {}, false); }
Result AnyAllDims(Call& c) {
  // Over no axes at all it is the question for each element.
  if (c.arg(1).get<Arg::List>() && c.Ints(1).empty()) return c.b.Cast(c.Tensor(0), DType::kBool);
  return AnyAllOf(c, c.Tensor(0), c.Ints(1), c.Bool(2));
}

struct Moments {
  Operand variance, mean;
};
Moments MomentsOf(Call& c, const Operand& x, const std::vector<int64_t>& axes, double correction, bool keep_dims) {
  Operand mean = c.b.Reduce("ReduceMean", x, axes, true), centred = c.b.Sub(x, mean);
  Operand squares = c.b.Mul(centred, centred);
  Operand kept_mean = keep_dims ? mean : c.b.Reduce("ReduceMean", x, axes, false);
  if (correction == 0) return {c.b.Reduce("ReduceMean", squares, axes, keep_dims), kept_mean};
  Dim count(1);
  Operand counted = c.b.Int(1);
  for (size_t axis = 0; axis < x.rank(); ++axis) {
    bool reduced = axes.empty();
    for (int64_t wanted : axes) reduced = reduced || x.Axis(wanted) == axis;
    if (!reduced) continue;
    count = count * x.dim(static_cast<int64_t>(axis));
    counted = c.b.Mul(counted, c.b.AsRank0(c.b.SizeOf(x, static_cast<int64_t>(axis))));
  }
  Operand sum = c.b.Reduce("ReduceSum", squares, axes, keep_dims);
  if (count.known()) return {c.b.Div(sum, std::max(0.0, static_cast<double>(*count.value) - correction)), kept_mean};
  Operand divisor = c.b.Sub(c.b.CastLike(counted, x), correction);
  return {c.b.Div(sum, c.b.Max(divisor, c.b.NumberLike(0, x))), kept_mean};
}
Result FromMoments(Call& c, const Moments& moments) {
  std::string name = c.op_name();
  Operand spread = name.starts_with("std") ? c.b.Sqrt(moments.variance) : moments.variance;
  if (name.ends_with("_mean")) return Operands{spread, moments.mean};
  return spread;
}
Result Variance(Call& c) { return FromMoments(c, MomentsOf(c, c.Tensor(0), {}, c.Bool(1) ? 1 : 0, false)); }
Result VarianceDims(Call& c) {
  return FromMoments(c, MomentsOf(c, c.Tensor(0), c.Ints(1), c.Bool(2) ? 1 : 0, c.Bool(3)));
}
Result VarianceCorrected(Call& c) {
  double correction = c.IsNone(2) ? 1 : c.Float(2);
  return FromMoments(c, MomentsOf(c, c.Tensor(0), c.Ints(1), correction, c.Bool(3)));
}

// Around the largest element, which must not be infinite for that.
Result LogSumExp(Call& c) {
  Operand x = c.FloatTensor(0);
  std::vector<int64_t> axes = c.Ints(1);
  Operand largest = c.b.Reduce("ReduceMax", x, axes, true);
  Operand pivot = c.b.Where(c.b.Equal(c.b.Abs(largest), kInfinity), c.b.NumberLike(0, x), largest);
  Operand sum = c.b.Log(c.b.Reduce("ReduceSum", c.b.Exp(c.b.Sub(x, pivot)), axes, true));
  Operand result = c.b.Add(sum, pivot);
  if (c.Bool(2) || x.rank() == 0) return result;
  std::vector<int64_t> dropped = axes;
  if (dropped.empty())
    for (size_t axis = 0; axis < x.rank(); ++axis) dropped.push_back(static_cast<int64_t>(axis));
  return c.b.Squeeze(result, dropped);
}

Operand NormOf(Call& c, const Operand& x, double order, const std::vector<int64_t>& axes, bool keep_dims) {
  return NormAlong(c.b, x.is_complex() ? MagnitudeOf(c.b, x) : c.b.ToFloat(x), order, axes, keep_dims);
}
Operand Converted(Call& c, const Operand& x, size_t dtype_at) { return c.b.Cast(x, c.Type(dtype_at, x.dtype())); }
Result VectorNorm(Call& c) { return NormOf(c, Converted(c, c.Tensor(0), 4), c.Float(1), c.Ints(2), c.Bool(3)); }
double Order(Call& c, size_t i) { return c.IsNone(i) ? 2 : c.Float(i); }
Result Norm(Call& c) { return NormOf(c, c.Tensor(0), Order(c, 1), {}, false); }
Result NormDtype(Call& c) { return NormOf(c, Converted(c, c.Tensor(0), 2), Order(c, 1), {}, false); }
Result NormDims(Call& c) { return NormOf(c, c.Tensor(0), Order(c, 1), c.Ints(2), c.Bool(3)); }
Result NormDimsDtype(Call& c) { return NormOf(c, Converted(c, c.Tensor(0), 4), Order(c, 1), c.Ints(2), c.Bool(3)); }

Result FrobeniusNorm(Call& c) { return NormOf(c, c.Tensor(0), 2, c.Ints(1), c.Bool(2)); }
// Each slice along `dim` gets the length that g says; dim -1 takes all as one.
Result WeightNorm(Call& c) {
  Operand v = c.Tensor(0), g = c.Tensor(1);
  std::vector<int64_t> others;
  for (size_t axis = 0; axis < v.rank(); ++axis)
    if (c.Int(2) == -1 || axis != v.Axis(c.Int(2))) others.push_back(static_cast<int64_t>(axis));
  return c.b.Mul(v, c.b.Div(g, NormAlong(c.b, v, 2, others, true)));
}

Result CountNonzero(Call& c) {
  Operand x = c.Tensor(0);
  Operand counted = c.b.Cast(c.b.Cast(x, DType::kBool), DType::kInt64);
  return c.b.Reduce("ReduceSum", counted, c.Ints(1), false);
}

Result CumSum(Call& c) {
  Operand x = c.Tensor(0);
  x = c.b.Cast(x, SumType(c, x, 2));
  if (x.rank() == 0) return x;
  return c.b.Widened("CumSum", {x, c.b.Int(static_cast<int64_t>(x.Axis(c.Int(1))))});
}

// y[i] = x[0] ∘ … ∘ x[i] in log₂(n) steps, each combining with what lies 1, 2, 4 … places before.
template <class Combine>
Operand RunningOf(Call& c, Operand x, int64_t axis, double neutral, const Combine& combine) {
  if (x.rank() == 0) return x;
  Dim size = x.dim(axis);
  if (!size.known()) c.Unsupported("the size of the axis it runs along is not known");
  for (int64_t shift = 1; shift<*size.value; shift = shift> * size.value / 2 ? *size.value : 2 * shift) {
    std::vector<Scalar> head = c.b.Sizes(x);
    head[x.Axis(axis)] = Scalar(shift);
    Operand before = c.b.Concat(
        {c.b.Fill(neutral, x.dtype(), c.b.ShapeVector(head)), c.b.Slice(x, axis, Scalar(0), Scalar(-shift))}, axis);
    x = combine(x, before);
  }
  return x;
}
Result CumProd(Call& c) {
  Operand x = c.Tensor(0);
  return RunningOf(c, c.b.Cast(x, SumType(c, x, 2)), c.Int(1), 1,
                   [&](const Operand& a, const Operand& b) { return c.b.Mul(a, b); });
}
Result LogCumSumExp(Call& c) {
  Operand x = c.Tensor(0);
  return RunningOf(c, x, c.Int(1), -kInfinity, [&](const Operand& a, const Operand& b) {
    Operand gain = Log1pOf(c.b, c.b.Exp(c.b.Neg(c.b.Abs(c.b.Sub(a, b)))));
    Operand same = c.b.Add(a, std::log(2.0));
    return c.b.Where(c.b.Equal(a, b), same, c.b.Add(c.b.Max(a, b), gain));
  });
}

constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"sum(Tensor self, *, ScalarType? dtype=None)", Sum, kPlain, kComplexToo},
    {"sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)", SumDims, kPlain,
     kComplexToo},
    {"mean(Tensor self, *, ScalarType? dtype=None)", Mean, kPlain, kComplexToo},
    {"mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)", MeanDims, kPlain,
     kComplexToo},
    {"nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)", NanSum},
    {"nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)", NanMean},
    {"prod(Tensor self, *, ScalarType? dtype=None)", Prod},
    {"prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None)", ProdDim},
    {"max(Tensor self)", Extreme},
    {"min(Tensor self)", Extreme},
    {"max.dim(Tensor self, int dim, bool keepdim=False)", ExtremeWithIndex},
    {"min.dim(Tensor self, int dim, bool keepdim=False)", ExtremeWithIndex},
    {"amax(Tensor self, int[1] dim=[], bool keepdim=False)", ExtremeDims},
    {"amin(Tensor self, int[1] dim=[], bool keepdim=False)", ExtremeDims},
    {"aminmax(Tensor self, *, int? dim=None, bool keepdim=False)", AMinMax},
    {"argmax(Tensor self, int? dim=None, bool keepdim=False)", ArgExtreme},
    {"argmin(Tensor self, int? dim=None, bool keepdim=False)", ArgExtreme},
    {"any(Tensor self)", AnyAll},
    {"all(Tensor self)", AnyAll},
    {"any.dim,dims(Tensor self, int[]? dim=None, bool keepdim=False)", AnyAllDims},
    {"all.dim,dims(Tensor self, int[]? dim=None, bool keepdim=False)", AnyAllDims},
    {"var(Tensor self, bool unbiased=True)", Variance},
    {"std(Tensor self, bool unbiased=True)", Variance},
    {"var_mean(Tensor self, bool unbiased=True)", Variance},
    {"std_mean(Tensor self, bool unbiased=True)", Variance},
    {"var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)", VarianceDims},
    {"std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)", VarianceDims},
    {"var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)", VarianceDims},
    {"std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)", VarianceDims},
    {"var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)",
     VarianceCorrected},
    {"std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)",
     VarianceCorrected},
    {"var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)",
     VarianceCorrected},
    {"std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)",
     VarianceCorrected},
    {"logsumexp(Tensor self, int[1] dim, bool keepdim=False)", LogSumExp},
    {"linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
     VectorNorm, kPlain, kComplexToo},
    {"norm.Scalar(Tensor self, Scalar? p=2)", Norm, kPlain, kComplexToo},
    {"norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype)", NormDtype, kPlain, kComplexToo},
    {"norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False)", NormDims, kPlain, kComplexToo},
    {"norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype)", NormDimsDtype,
     kPlain, kComplexToo},
    {"frobenius_norm.default,dim(Tensor self, int[1] dim=[], bool keepdim=False)", FrobeniusNorm, kPlain, kComplexToo},
    {"_weight_norm(Tensor v, Tensor g, int dim=0)", WeightNorm},
    {"count_nonzero.default,dim_IntList(Tensor self, int[]? dim=None)", CountNonzero},
    {"cumsum(Tensor self, int dim, *, ScalarType? dtype=None)", CumSum},
    {"cumprod(Tensor self, int dim, *, ScalarType? dtype=None)", CumProd},
    {"logcumsumexp(Tensor self, int dim)", LogCumSumExp},
};

}  // namespace

std::span<const Rule> ReductionRules() { return kRules; }

}  // namespace ferry::torch

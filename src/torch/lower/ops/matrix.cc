// Products of matrices and vectors.
#include <numeric>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

// (A + iB)(C + iD), part by part.
Operand Product(Builder& b, const Operand& x, const Operand& y) {
  if (!x.is_complex()) return b.Widened("MatMul", {x, y});
  Operand xr = b.Real(x), xi = b.Imaginary(x), yr = b.Real(y), yi = b.Imaginary(y);
  return b.MakeComplex(b.Sub(b.MatMul(xr, yr), b.MatMul(xi, yi)), b.Add(b.MatMul(xr, yi), b.MatMul(xi, yr)));
}

Result Matmul(Call& c) {
  Operands o = c.Promoted({0, 1});
  return Product(c.b, o[0], o[1]);
}

Operand TimesScalar(Builder& b, const Operand& x, const Scalar& factor) {
  if (factor.is_known() && factor.AsComplex() == 1.0) return x;
  Operand number = b.Of(factor, x.dtype());
  return x.is_complex() ? MultiplyComplex(b, x, number) : b.Mul(x, number);
}
Operand Plus(Builder& b, const Operand& x, const Operand& y) {
  return x.is_complex() ? b.Add(x.AsPairs(), y.AsPairs()).AsComplex() : b.Add(x, y);
}
// beta * self + alpha * product; self does not count at all when beta is 0, be it NaN.
Operand Accumulate(Call& c, const Operand& self, const Operand& product, size_t beta, size_t alpha) {
  Operand scaled = TimesScalar(c.b, product, c.Number(alpha));
  Scalar share = c.Number(beta);
  if (share.is_known() && share.AsComplex() == 0.0) return scaled;
  return Plus(c.b, TimesScalar(c.b, self, share), scaled);
}

bool IsGemmType(DType dtype) { return dtype == DType::kFloat || dtype == DType::kDouble || dtype == DType::kFloat16; }

Result Addmm(Call& c) {
  Operands o = c.Promoted({0, 1, 2});
  Scalar beta = c.Number(3), alpha = c.Number(4);
  bool plain = IsGemmType(o[0].dtype()) && beta.is_known() && alpha.is_known() && beta.AsComplex() != 0.0;
  if (!plain) return Accumulate(c, o[0], Product(c.b, o[1], o[2]), 3, 4);
  return c.b.Emit("Gemm", {o[1], o[2], o[0]},
                  {{"alpha", static_cast<float>(alpha.AsDouble())}, {"beta", static_cast<float>(beta.AsDouble())}});
}
Result Addmv(Call& c) {
  Operands o = c.Promoted({0, 1, 2});
  return Accumulate(c, o[0], Product(c.b, o[1], o[2]), 3, 4);
}
Result Addbmm(Call& c) {
  Operands o = c.Promoted({0, 1, 2});
  Operand product = Product(c.b, o[1], o[2]);
  Operand sum = product.is_complex() ? c.b.Reduce("ReduceSum", product.AsPairs(), {0}, false).AsComplex()
                                     : c.b.Reduce("ReduceSum", product, {0}, false);
  return Accumulate(c, o[0], sum, 3, 4);
}
Operand OuterOf(Builder& b, const Operand& x, const Operand& y) {
  Operand column = b.Unsqueeze(x, {1}), row = b.Unsqueeze(y, {0});
  return x.is_complex() ? MultiplyComplex(b, column, row) : b.Mul(column, row);
}
Result Addr(Call& c) {
  Operands o = c.Promoted({0, 1, 2});
  return Accumulate(c, o[0], OuterOf(c.b, o[1], o[2]), 3, 4);
}
Result Outer(Call& c) {
  Operands o = c.Promoted({0, 1});
  return OuterOf(c.b, o[0], o[1]);
}

// x W' + b. For matrices that is one Gemm on the weight as it is; else MatMul on the transposed weight.
Result Linear(Call& c) {
  Operand x = c.Tensor(0), weight = c.Tensor(1), bias = c.MaybeTensor(2);
  if (x.rank() == 2 && weight.rank() == 2 && IsGemmType(x.dtype()) && (!bias || bias.rank() <= 1))
    return c.b.Emit("Gemm", {x, weight, bias}, {{"transB", int64_t{1}}});
  Operand product = Product(c.b, x, weight.rank() == 2 ? c.b.TransposedWeight(weight) : weight);
  return bias ? Plus(c.b, product, bias) : product;
}

Operand Conjugated(Builder& b, const Operand& x) {
  return x.is_complex() ? b.MakeComplex(b.Real(x), b.Neg(b.Imaginary(x))) : x;
}
Result Vdot(Call& c) {
  Operands o = c.Promoted({0, 1});
  return Product(c.b, Conjugated(c.b, o[0]), o[1]);
}
Result Vecdot(Call& c) {
  Operands o = c.Promoted({0, 1});
  Operand x = Conjugated(c.b, o[0]);
  int64_t axis = c.Int(2);
  if (!x.is_complex()) return c.b.Reduce("ReduceSum", c.b.Mul(x, o[1]), {axis}, false);
  Operand product = MultiplyComplex(c.b, x, o[1]);
  return c.b.Reduce("ReduceSum", product.AsPairs(), {static_cast<int64_t>(product.Axis(axis))}, false).AsComplex();
}
// The last axes against each other; a scalar multiplies.
Result Inner(Call& c) {
  Operands o = c.Promoted({0, 1});
  const Operand &x = o[0], &y = o[1];
  if (x.rank() == 0 || y.rank() == 0) return x.is_complex() ? MultiplyComplex(c.b, x, y) : c.b.Mul(x, y);
  if (x.rank() == 1 && y.rank() == 1) return Product(c.b, x, y);
  std::vector<Scalar> sizes = c.b.Sizes(x), others = c.b.Sizes(y);
  sizes.pop_back();
  sizes.insert(sizes.end(), others.begin(), others.end() - 1);
  Operand rows = c.b.View(x, {Scalar(-1), c.b.SizeScalar(x, -1)}),
          columns = c.b.View(y, {Scalar(-1), c.b.SizeScalar(y, -1)});
  return c.b.View(Product(c.b, rows, c.b.SwapAxes(columns, 0, 1)), sizes);
}
Result Trace(Call& c) {
  Operand x = c.Tensor(0);
  Dim rows = x.dim(0), columns = x.dim(1);
  if (!rows.known() || !columns.known()) c.Unsupported("the sizes of the matrix are not known");
  RequireFewPositions(static_cast<double>(std::min(*rows.value, *columns.value)));
  CheckedProduct(*rows.value, *columns.value);
  std::vector<int64_t> diagonal;
  for (int64_t i = 0; i < std::min(*rows.value, *columns.value); ++i) diagonal.push_back(i * *columns.value + i);
  Operand elements = c.b.Gather(c.b.Reshape(x, {-1}), c.b.Ints(diagonal), 0);
  if (x.is_complex()) return c.b.Reduce("ReduceSum", elements.AsPairs(), {0}, false).AsComplex();
  if (!IsFloating(x.dtype())) elements = c.b.Cast(elements, DType::kInt64);
  return c.b.Reduce("ReduceSum", elements, {0}, false);
}
Result Einsum(Call& c) {
  Operands tensors = c.Tensors(1);
  std::vector<TensorOrNumber> values(tensors.begin(), tensors.end());
  DType dtype = ResultType(values);
  for (Operand& tensor : tensors) tensor = c.b.Cast(tensor, dtype);
  return c.b.Emit("Einsum", tensors, {{"equation", c.Text(0)}});
}
Operand SumAlong(Call& c, const Operand& x, int64_t axis) {
  Operand sum = c.b.Reduce("ReduceSum", x.AsPairs(), {static_cast<int64_t>(x.Axis(axis))}, true);
  return x.is_complex() ? sum.AsComplex() : sum;
}

// Axes of both summed together: as one product of matrices.
Result Tensordot(Call& c) {
  Operands o = c.Promoted({0, 1});
  std::vector<int64_t> left = c.Ints(2), right = c.Ints(3), left_order, right_order;
  if (left.size() != right.size()) c.Unsupported("it sums over ", left.size(), " and ", right.size(), " axes");
  // A size of 1 goes with any other: the other is summed up first.
  for (size_t i = 0; i < left.size(); ++i) {
    Dim one = o[0].dim(left[i]), other = o[1].dim(right[i]);
    if (SameDim(one, other)) continue;
    if (SameDim(one, Dim(1))) o[1] = SumAlong(c, o[1], right[i]);
    if (SameDim(other, Dim(1))) o[0] = SumAlong(c, o[0], left[i]);
  }
  std::vector<Scalar> sizes;
  auto is_summed = [](const Operand& x, const std::vector<int64_t>& axes, size_t axis) {
    for (int64_t summed : axes)
      if (x.Axis(summed) == axis) return true;
    return false;
  };
  for (size_t axis = 0; axis < o[0].rank(); ++axis)
    if (!is_summed(o[0], left, axis)) {
      left_order.push_back(static_cast<int64_t>(axis));
      sizes.push_back(c.b.SizeScalar(o[0], static_cast<int64_t>(axis)));
    }
  Scalar summed(int64_t{1});
  for (size_t i = 0; i < left.size(); ++i) {
    bool of_first = o[0].dim(left[i]).known() || !o[1].dim(right[i]).known();
    Scalar size = of_first ? c.b.SizeScalar(o[0], left[i]) : c.b.SizeScalar(o[1], right[i]);
    if (summed.is_known() && size.is_known())
      summed = Scalar(CheckedProduct(summed.AsInt(), size.AsInt()));
    else
      summed = Scalar(Scalar::Kind::kInt, c.b.Mul(c.b.AsVector(summed), c.b.AsVector(size)));
  }
  left_order.insert(left_order.end(), left.begin(), left.end());
  right_order = right;
  for (size_t axis = 0; axis < o[1].rank(); ++axis)
    if (!is_summed(o[1], right, axis)) {
      right_order.push_back(static_cast<int64_t>(axis));
      sizes.push_back(c.b.SizeScalar(o[1], static_cast<int64_t>(axis)));
    }
  Operand rows, columns;
  if (summed.is_known()) {
    rows = c.b.Reshape(c.b.Transpose(o[0], left_order), {-1, summed.AsInt()});
    columns = c.b.Reshape(c.b.Transpose(o[1], right_order), {summed.AsInt(), -1});
  } else {
    rows = c.b.View(c.b.Transpose(o[0], left_order), {Scalar(-1), summed});
    columns = c.b.View(c.b.Transpose(o[1], right_order), {summed, Scalar(-1)});
  }
  return c.b.View(Product(c.b, rows, columns), sizes);
}
Result Kron(Call& c) {
  Operands o = c.Promoted({0, 1});
  size_t rank = std::max(o[0].rank(), o[1].rank());
  std::vector<int64_t> after, before;
  std::vector<Scalar> sizes;
  for (Operand& x : o) {
    std::vector<int64_t> leading(rank - x.rank());
    std::iota(leading.begin(), leading.end(), 0);
    x = c.b.Unsqueeze(x, leading);
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    before.push_back(static_cast<int64_t>(2 * axis));
    after.push_back(static_cast<int64_t>(2 * axis + 1));
    Dim size = o[0].dim(static_cast<int64_t>(axis)) * o[1].dim(static_cast<int64_t>(axis));
    if (!size.known()) c.Unsupported("its sizes are not known");
    sizes.push_back(Scalar(*size.value));
  }
  Operand x = c.b.Unsqueeze(o[0], after), y = c.b.Unsqueeze(o[1], before);
  return c.b.View(x.is_complex() ? MultiplyComplex(c.b, x, y) : c.b.Mul(x, y), sizes);
}
Result ChainMatmul(Call& c) {
  Operands matrices = c.Tensors(0);
  Operand product = matrices.at(0);
  for (size_t i = 1; i < matrices.size(); ++i) product = Product(c.b, product, matrices[i]);
  return product;
}
// y[..., k] = x1[..., i] W[k, i, j] x2[..., j] + b[k]
Result Bilinear(Call& c) {
  Operand x1 = c.Tensor(0), x2 = c.Tensor(1), weight = c.Tensor(2), bias = c.MaybeTensor(3);
  Operand y = c.b.Emit("Einsum", {x1, weight, x2}, {{"equation", std::string("...i,kij,...j->...k")}});
  return bias ? c.b.Add(y, bias) : y;
}
Result CrossAlong(Call& c, int64_t axis) {
  Operands o = c.Promoted({0, 1});
  auto part = [&](const Operand& x, int64_t i) { return c.b.Slice(x, axis, Scalar(i), Scalar(i + 1)); };
  Operands parts;
  for (int64_t i = 0; i < 3; ++i) {
    int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    parts.push_back(c.b.Sub(c.b.Mul(part(o[0], j), part(o[1], k)), c.b.Mul(part(o[0], k), part(o[1], j))));
  }
  return c.b.Concat(parts, axis);
}
// Without a dimension, the first of size 3.
Result Cross(Call& c) {
  if (!c.IsNone(2)) return CrossAlong(c, c.Int(2));
  Operand x = c.Tensor(0);
  for (size_t axis = 0; axis < x.rank(); ++axis)
    if (SameDim(x.dim(static_cast<int64_t>(axis)), Dim(3))) return CrossAlong(c, static_cast<int64_t>(axis));
  c.Unsupported("no dimension of size 3 is known");
}

// Rows in groups, each with a matrix of its own: group i ends before row offs[i]. Rows after the last group are zero.
Result GroupedMm(Call& c) {
  Operand x = c.Tensor(0), matrices = c.Tensor(1), ends = c.MaybeTensor(2);
  if (!c.IsNone(3)) c.Unsupported("grouped products with a bias have no export");
  DType dtype = c.Type(4, x.dtype());
  if (!ends && x.rank() == 3 && matrices.rank() == 3) return c.b.Cast(c.b.MatMul(x, matrices), dtype);
  if (!ends || x.rank() != 2 || matrices.rank() != 3 || !matrices.dim(0).known() || *matrices.dim(0).value < 1)
    c.Unsupported("this form of grouped product has no export");
  RequireFewNodes(static_cast<double>(*matrices.dim(0).value));
  Scalar begin(0);
  Operands parts;
  for (int64_t group = 0; group < *matrices.dim(0).value; ++group) {
    Scalar end(Scalar::Kind::kInt, c.b.Slice(c.b.Cast(ends, DType::kInt64), 0, Scalar(group), Scalar(group + 1)));
    parts.push_back(c.b.MatMul(c.b.Slice(x, 0, begin, end), c.b.Select(matrices, 0, group)));
    begin = end;
  }
  Operand rest = c.b.Slice(x, 0, begin, Scalar(INT64_MAX));
  parts.push_back(c.b.Fill(0, x.dtype(), c.b.Concat({c.b.SizeOf(rest, 0), c.b.SizeOf(matrices, 2)}, 0)));
  return c.b.Cast(c.b.Concat(parts, 0), dtype);
}

constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None)",
     GroupedMm},
    {"linear(Tensor input, Tensor weight, Tensor? bias=None)", Linear, kPlain, kComplexToo},
    {"matmul(Tensor self, Tensor other)", Matmul, kPlain, kComplexToo},
    {"mm(Tensor self, Tensor mat2)", Matmul, kPlain, kComplexToo},
    {"bmm(Tensor self, Tensor mat2)", Matmul, kPlain, kComplexToo},
    {"mv(Tensor self, Tensor vec)", Matmul, kPlain, kComplexToo},
    {"dot(Tensor self, Tensor tensor)", Matmul, kPlain, kComplexToo},
    {"vdot(Tensor self, Tensor other)", Vdot, kPlain, kComplexToo},
    {"inner(Tensor self, Tensor other)", Inner, kPlain, kComplexToo},
    {"outer(Tensor self, Tensor vec2)", Outer, kPlain, kComplexToo},
    {"ger(Tensor self, Tensor vec2)", Outer, kPlain, kComplexToo},
    {"addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1)", Addmm, kPlain, kComplexToo},
    {"addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1)", Addmv, kPlain, kComplexToo},
    {"addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1)", Addr, kPlain, kComplexToo},
    {"addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1)", Addbmm, kPlain,
     kComplexToo},
    {"baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1)", Addmv, kPlain,
     kComplexToo},
    {"linalg_vecdot(Tensor x, Tensor y, *, int dim=-1)", Vecdot, kPlain, kComplexToo},
    {"trace(Tensor self)", Trace, kPlain, kComplexToo},
    {"einsum(str equation, Tensor[] tensors, *, int[]? path=None)", Einsum},
    {"tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other)", Tensordot, kPlain, kComplexToo},
    {"kron(Tensor self, Tensor other)", Kron, kPlain, kComplexToo},
    {"chain_matmul(Tensor[] matrices)", ChainMatmul, kPlain, kComplexToo},
    {"linalg_multi_dot(Tensor[] tensors)", ChainMatmul, kPlain, kComplexToo},
    {"bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None)", Bilinear},
    {"cross(Tensor self, Tensor other, int? dim=None)", Cross},
    {"linalg_cross(Tensor self, Tensor other, *, int dim=-1)", Cross},
};

}  // namespace

std::span<const Rule> MatrixRules() { return kRules; }

}  // namespace ferry::torch

// Norms of matrices and what is made of them.
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "torch/lower/families.h"
#include "torch/lower/ops/matrices.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A norm by number, or by the name that PyTorch has for it.
struct Order {
  double number = 2;
  std::string name;  // "fro", "nuc" or empty
};
Order OrderAt(Call& c, size_t i) {
  if (!c.arg(i).get<std::string>()) return {c.Float(i), {}};
  std::string name = c.Text(i);
  if (name != "fro" && name != "nuc") c.Unsupported("the norm '", Printable(name), "' is not known");
  return {2, name};
}

Operand RealInput(Call& c, DType dtype) {
  Operand x = c.FloatTensor(0);
  if (x.is_complex()) x = MagnitudeOf(c.b, x);
  return c.b.Cast(x, dtype);
}

// The singular values along a new last axis where the two axes were.
Operand SingularAlong(Builder& b, const Operand& x, size_t rows, size_t columns) {
  std::vector<int64_t> order;
  for (size_t axis = 0; axis < x.rank(); ++axis)
    if (axis != rows && axis != columns) order.push_back(static_cast<int64_t>(axis));
  order.push_back(static_cast<int64_t>(rows));
  order.push_back(static_cast<int64_t>(columns));
  return SingularOf(b, b.Cast(b.Transpose(x, order), DType::kDouble)).values;
}

Operand MatrixNormOf(Call& c, const Operand& x, const Order& order, int64_t dim1, int64_t dim2, bool keep) {
  Builder& b = c.b;
  size_t rows = x.Axis(dim1), columns = x.Axis(dim2);
  Require(rows != columns, "a matrix norm needs two axes");
  std::vector<int64_t> both = {static_cast<int64_t>(rows), static_cast<int64_t>(columns)};
  if (SameDim(x.dim(dim1), Dim(0)) || SameDim(x.dim(dim2), Dim(0))) return b.Reduce("ReduceSum", x, both, keep);
  if (order.name == "fro") return b.Reduce("ReduceL2", x, both, keep);
  double magnitude = std::abs(order.number);
  bool largest = order.number > 0;
  if (order.name == "nuc" || magnitude == 2) {
    Operand values = SingularAlong(b, x, rows, columns);
    Operand norm = order.name == "nuc" ? b.Reduce("ReduceSum", values, {-1}, false)
                                       : b.Reduce(largest ? "ReduceMax" : "ReduceMin", values, {-1}, false);
    norm = b.CastLike(norm, x);
    return keep ? b.Unsqueeze(norm, {std::min(both[0], both[1]), std::max(both[0], both[1])}) : norm;
  }
  if (magnitude != 1 && magnitude != kInfinity) c.Unsupported("a matrix norm of order ", order.number, " is not known");
  // 1: sums over the rows; infinity: over the columns.
  bool over_rows = magnitude == 1;
  Operand sums = b.Reduce("ReduceSum", b.Abs(x), {over_rows ? both[0] : both[1]}, true);
  Operand norm = b.Reduce(largest ? "ReduceMax" : "ReduceMin", sums, {over_rows ? both[1] : both[0]}, true);
  return keep ? norm : b.Squeeze(norm, both);
}

DType ResultTypeOf(Call& c, size_t dtype) { return c.Type(dtype, RealType(FloatingResult(c.Tensor(0).dtype()))); }

Result MatrixNorm(Call& c) {
  std::vector<int64_t> dims = c.Ints(2);
  Require(dims.size() == 2, "a matrix norm needs two axes, not ", dims.size());
  return MatrixNormOf(c, RealInput(c, ResultTypeOf(c, 4)), OrderAt(c, 1), dims[0], dims[1], c.Bool(3));
}
// Vectors, matrices, or everything as one vector, by what is given.
Result Norm(Call& c) {
  Operand x = RealInput(c, ResultTypeOf(c, 4));
  std::vector<int64_t> dims = c.Ints(2);
  bool keep = c.Bool(3);
  if (c.IsNone(1)) {
    if (c.IsNone(2)) {
      dims.resize(x.rank());
      std::iota(dims.begin(), dims.end(), 0);
    }
    return NormAlong(c.b, x, 2, dims, keep);
  }
  if (c.IsNone(2)) {
    dims.resize(x.rank());
    std::iota(dims.begin(), dims.end(), 0);
  }
  Order order = OrderAt(c, 1);
  if (dims.size() == 2) return MatrixNormOf(c, x, order, dims[0], dims[1], keep);
  if (dims.size() != 1 || !order.name.empty()) c.Unsupported("a norm of this order needs a vector or a matrix");
  return NormAlong(c.b, x, order.number, dims, keep);
}

// frobenius_norm.dim and nuclear_norm: the older names.
Result Frobenius(Call& c) {
  Operand x = RealInput(c, RealType(FloatingResult(c.Tensor(0).dtype())));
  return c.b.Reduce("ReduceL2", x, c.Ints(1), c.Bool(2));
}
Result Nuclear(Call& c) {
  Operand x = c.Tensor(0);
  if (c.target.ends_with(".dim")) {
    std::vector<int64_t> dims = c.Ints(1);
    Require(dims.size() == 2, "a matrix norm needs two axes, not ", dims.size());
    return MatrixNormOf(c, x, {2, "nuc"}, dims[0], dims[1], c.Bool(2));
  }
  return MatrixNormOf(c, x, {2, "nuc"}, 0, 1, c.Bool(1));
}

Result Condition(Call& c) {
  Builder& b = c.b;
  Operand x = c.FloatTensor(0);
  Order order = c.IsNone(1) ? Order{} : OrderAt(c, 1);
  if (order.name.empty() && std::abs(order.number) == 2) {
    Operand values = SingularOf(b, b.Cast(x, DType::kDouble)).values;
    Operand largest = b.Select(values, -1, 0), least = b.Gather(values, b.Int(-1), -1);
    return b.CastLike(order.number > 0 ? b.Div(largest, least) : b.Div(least, largest), x);
  }
  Operand wide = b.Cast(x, DType::kDouble);
  Operand norm = MatrixNormOf(c, wide, order, -2, -1, false);
  return b.CastLike(b.Mul(norm, MatrixNormOf(c, InverseOf(b, wide), order, -2, -1, false)), x);
}

constexpr Rule kRules[] = {
    {"linalg_norm.default,ord_str(Tensor self, Any? ord=None, int[1]? dim=None, bool keepdim=False, *, "
     "ScalarType? dtype=None)",
     Norm},
    {"linalg_matrix_norm(Tensor self, Any ord, int[] dim=[-2,-1], bool keepdim=False, *, ScalarType? dtype=None)",
     MatrixNorm},
    {"linalg_matrix_norm.str_ord(Tensor self, str ord=\"fro\", int[] dim=[-2,-1], bool keepdim=False, *, "
     "ScalarType? dtype=None)",
     MatrixNorm},
    {"frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False)", Frobenius},
    {"nuclear_norm(Tensor self, bool keepdim=False)", Nuclear},
    {"nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False)", Nuclear},
    {"linalg_cond.default,p_str(Tensor self, Any? p=None)", Condition},
};

}  // namespace

std::span<const Rule> MatrixNormRules() { return kRules; }

}  // namespace ferry::torch

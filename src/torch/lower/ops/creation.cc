// Tensors made from nothing, and conversions of element types.
#include <algorithm>
#include <cmath>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

// A number or a size as a tensor's shape wants it.
Operand ShapeArg(Call& c, size_t i) { return c.b.ShapeVector(c.Numbers(i)); }

DType TypeOfNumber(const Scalar& number) {
  static constexpr DType kTypes[] = {DType::kBool, DType::kInt64, DType::kFloat, DType::kComplex64};
  return kTypes[static_cast<size_t>(number.kind())];
}
Operand FilledWith(Call& c, const TensorOrNumber& value, DType dtype, const Operand& shape) {
  const Scalar* number = std::get_if<Scalar>(&value);
  if (number && number->is_known() && !IsComplex(dtype)) {
    bool exact = !number->is_integral() || std::abs(number->AsDouble()) < 0x1p53;
    if (exact) return c.b.Fill(number->AsDouble(), dtype, shape);
  }
  return c.b.Expand(c.As(value, dtype), shape);
}

// full(size, value), and with a value of their own zeros, ones and empty, whose contents mean nothing.
Result Full(Call& c) {
  Scalar value = c.Number(1);
  return FilledWith(c, value, c.Type(2, TypeOfNumber(value)), ShapeArg(c, 0));
}
double OwnValue(Call& c) { return c.op_name().find("ones") != std::string::npos ? 1 : 0; }
Result Filled(Call& c) { return c.b.Fill(OwnValue(c), c.Type(1, DType::kFloat), ShapeArg(c, 0)); }
Result FilledLike(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.Fill(OwnValue(c), c.Type(1, x.dtype()), c.b.ShapeOf(x));
}
Result FullLike(Call& c) {
  Operand x = c.Tensor(0);
  return FilledWith(c, c.Any(1), c.Type(2, x.dtype()), c.b.ShapeOf(x));
}
Result NewFilled(Call& c) { return c.b.Fill(OwnValue(c), c.Type(2, c.Tensor(0).dtype()), ShapeArg(c, 1)); }
Result NewFull(Call& c) { return FilledWith(c, c.Any(2), c.Type(3, c.Tensor(0).dtype()), ShapeArg(c, 1)); }
Result ScalarTensor(Call& c) { return c.b.Of(c.Number(0), c.Type(1, TypeOfNumber(c.Number(0)))); }
Result FillWith(Call& c) {
  Operand x = c.Tensor(0);
  return FilledWith(c, c.Any(1), x.dtype(), c.b.ShapeOf(x));
}
Result Zero(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.Fill(0, x.dtype(), c.b.ShapeOf(x));
}
Result Copy(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.ExpandLike(c.b.CastLike(c.Tensor(1), x), x);
}

// Integers are counted exactly; floats as PyTorch does: how many, then start + i * step.
Result ArangeOf(Call& c, const Scalar& start, const Scalar& end, const Scalar& step, size_t dtype_at) {
  bool integral = start.is_integral() && end.is_integral() && step.is_integral();
  DType dtype = c.Type(dtype_at, integral ? DType::kInt64 : DType::kFloat);
  if (integral) {
    Operand numbers = c.b.Range(c.b.Of(start, DType::kInt64), c.b.Of(end, DType::kInt64), c.b.Of(step, DType::kInt64));
    return c.b.Cast(numbers, dtype);
  }
  if (!start.is_known() || !end.is_known() || !step.is_known())
    c.Unsupported("a range of floats whose bounds are only known while the model runs");
  double steps_between = std::ceil((end.AsDouble() - start.AsDouble()) / step.AsDouble());
  if (!(std::abs(steps_between) < 0x1p53)) c.Unsupported("a range of ", steps_between, " numbers");
  auto count = static_cast<int64_t>(steps_between);
  Operand steps = c.b.Range(c.b.Int(0), c.b.Int(std::max<int64_t>(count, 0)), c.b.Int(1));
  DType work = IsFloating(dtype) ? (dtype == DType::kDouble ? dtype : DType::kFloat) : DType::kDouble;
  Operand values = c.b.Add(c.b.Mul(c.b.Cast(steps, work), step.AsDouble()), start.AsDouble());
  return c.b.Cast(values, dtype);
}
Result ArangeEnd(Call& c) { return ArangeOf(c, Scalar(0), c.Number(0), Scalar(1), 1); }
Result ArangeStart(Call& c) { return ArangeOf(c, c.Number(0), c.Number(1), Scalar(1), 2); }
Result ArangeStep(Call& c) { return ArangeOf(c, c.Number(0), c.Number(1), c.Number(2), 3); }

// Symmetric, as PyTorch computes it: the first half from the start, the rest back from the end.
Operand LinspaceOf(Call& c, const Operand& start, const Operand& end, int64_t steps) {
  DType work = start.dtype();
  if (steps == 1) return c.b.Reshape(start, {1});
  Operand index = c.b.Range(c.b.Int(0), c.b.Int(steps), c.b.Int(1));
  Operand step = c.b.Div(c.b.Sub(end, start), static_cast<double>(steps - 1));
  Operand forward = c.b.Add(start, c.b.Mul(step, c.b.Cast(index, work)));
  Operand backward = c.b.Sub(end, c.b.Mul(step, c.b.Cast(c.b.Sub(c.b.Int(steps - 1), index), work)));
  return c.b.Where(c.b.Less(index, c.b.Int(steps / 2)), forward, backward);
}
Result Linspace(Call& c) {
  DType dtype = c.Type(3, FloatingResult(ResultType({c.Any(0), c.Any(1)})));
  DType work = dtype == DType::kDouble || !IsFloating(dtype) ? DType::kDouble : DType::kFloat;
  return c.b.Cast(LinspaceOf(c, c.As(c.Any(0), work), c.As(c.Any(1), work), c.IntsOf(2, 1, 0)[0]), dtype);
}
Result Logspace(Call& c) {
  DType dtype = c.Type(4, FloatingResult(ResultType({c.Any(0), c.Any(1)})));
  DType work = dtype == DType::kDouble || !IsFloating(dtype) ? DType::kDouble : DType::kFloat;
  Operand exponents = LinspaceOf(c, c.As(c.Any(0), work), c.As(c.Any(1), work), c.IntsOf(2, 1, 0)[0]);
  return c.b.Cast(c.b.Pow(c.b.Number(c.Float(3), work), exponents), dtype);
}
Operand EyeOf(Call& c, int64_t rows, int64_t columns, DType dtype) {
  Operand i = c.b.Unsqueeze(c.b.Range(c.b.Int(0), c.b.Int(rows), c.b.Int(1)), {1}),
          j = c.b.Range(c.b.Int(0), c.b.Int(columns), c.b.Int(1));
  return c.b.Cast(c.b.Equal(i, j), dtype);
}
Result Eye(Call& c) { return EyeOf(c, c.IntsOf(0, 1, 0)[0], c.IntsOf(0, 1, 0)[0], c.Type(1, DType::kFloat)); }
Result EyeRectangle(Call& c) { return EyeOf(c, c.IntsOf(0, 1, 0)[0], c.IntsOf(1, 1, 0)[0], c.Type(2, DType::kFloat)); }

// Row and column of every place on one side of a diagonal, row by row.
Result TriangleIndices(Call& c) {
  bool lower = c.op_name() == "tril_indices";
  int64_t rows = c.IntsOf(0, 1, 0)[0], columns = c.IntsOf(1, 1, 0)[0];
  RequireFewPositions(static_cast<double>(rows) * static_cast<double>(columns));
  int64_t offset = std::clamp(c.Int(2), -rows, columns);
  std::vector<int64_t> i, j;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (lower ? column <= row + offset : column >= row + offset) {
        i.push_back(row);
        j.push_back(column);
      }
  auto count = static_cast<int64_t>(i.size());
  i.insert(i.end(), j.begin(), j.end());
  return c.b.Cast(c.b.Constant(Tensor::FromVector<int64_t>(i, {2, count})), c.Type(3, DType::kInt64));
}

// Keeps one side of a diagonal of the last two axes.
Operand TriangleOf(Call& c, const Operand& x, bool lower, int64_t diagonal) {
  if (c.b.Has("Trilu") && !x.is_complex())
    return c.b.Widened("Trilu", {x, c.b.Int(diagonal)}, {{"upper", int64_t{!lower}}});
  Operand i = c.b.Unsqueeze(c.b.Iota(x, -2), {1}), j = c.b.Iota(x, -1);
  Operand edge = c.b.Add(i, c.b.Int(diagonal));
  Operand kept = lower ? c.b.LessOrEqual(j, edge) : c.b.GreaterOrEqual(j, edge);
  return c.b.Where(kept, x, c.b.Number(0, x.dtype()));
}
Result Triangle(Call& c) { return TriangleOf(c, c.Tensor(0), c.op_name() == "tril", c.Int(1)); }

// The last axis becomes a diagonal of two new ones at dim1 and dim2 of the result.
Operand DiagEmbedOf(Call& c, const Operand& x, int64_t offset, int64_t dim1, int64_t dim2) {
  Builder& b = c.b;
  size_t rank = x.rank() + 1, first = NormalizeAxis(dim1, rank), second = NormalizeAxis(dim2, rank);
  int64_t extra = std::abs(offset);
  Operand size = b.Add(b.AsRank0(b.SizeOf(x, -1)), b.Int(extra));
  Operand count = b.Range(b.Int(0), size, b.Int(1));
  // Column j of row i holds element min(i, j) when j - i == offset.
  Operand rows = b.Unsqueeze(count, {1}), on_diagonal = b.Equal(b.Sub(count, rows), b.Int(offset));
  Operand index = b.Min(b.Min(rows, count), b.Sub(b.AsRank0(b.SizeOf(x, -1)), b.Int(1)));
  Operand spread = b.Where(on_diagonal, b.Gather(x, index, -1), b.Number(0, x.dtype()));
  std::vector<int64_t> order;
  int64_t next = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (axis == first)
      order.push_back(static_cast<int64_t>(rank) - 2);
    else if (axis == second)
      order.push_back(static_cast<int64_t>(rank) - 1);
    else
      order.push_back(next++);
  }
  return b.Transpose(spread, order);
}
Result DiagEmbed(Call& c) { return DiagEmbedOf(c, c.Tensor(0), c.Int(1), c.Int(2), c.Int(3)); }
Result DiagFlat(Call& c) { return DiagEmbedOf(c, c.b.Reshape(c.Tensor(0), {-1}), c.Int(1), 0, 1); }
// Of a vector the matrix, of a matrix the diagonal.
Result Diag(Call& c) {
  Operand x = c.Tensor(0);
  int64_t offset = c.Int(1);
  if (x.rank() == 1) return DiagEmbedOf(c, x, offset, 0, 1);
  std::optional<Shape> shape = x.static_shape();
  if (!shape) c.Unsupported("the sizes of the matrix are not known");
  std::vector<int64_t> places;
  for (int64_t i = std::max<int64_t>(-offset, 0); i < (*shape)[0] && i + offset < (*shape)[1]; ++i)
    places.push_back(i * (*shape)[1] + i + offset);
  return c.b.Gather(c.b.Reshape(x, {-1}), c.b.Ints(places), 0);
}

Result To(Call& c, size_t dtype_at) {
  Operand x = c.Tensor(0);
  return c.b.Cast(x, c.Type(dtype_at, x.dtype()));
}
Result ToDtype(Call& c) { return To(c, 1); }
Result ToDevice(Call& c) { return To(c, 2); }
Result TypeAs(Call& c) { return c.b.CastLike(c.Tensor(0), c.Tensor(1)); }

constexpr RuleKind kPlain = RuleKind::kPlain;
#define FACTORY_ARGS "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
#define LIKE_ARGS FACTORY_ARGS ", MemoryFormat? memory_format=None"

constexpr Rule kRules[] = {
    {"full(SymInt[] size, Scalar fill_value, " FACTORY_ARGS ")", Full},
    {"zeros(SymInt[] size, " FACTORY_ARGS ")", Filled},
    {"ones(SymInt[] size, " FACTORY_ARGS ")", Filled},
    {"empty.memory_format(SymInt[] size, " LIKE_ARGS ")", Filled},
    {"zeros_like(Tensor self, " LIKE_ARGS ")", FilledLike, kPlain, kComplexToo},
    {"ones_like(Tensor self, " LIKE_ARGS ")", FilledLike, kPlain, kComplexToo},
    {"empty_like(Tensor self, " LIKE_ARGS ")", FilledLike, kPlain, kComplexToo},
    {"full_like(Tensor self, Scalar fill_value, " LIKE_ARGS ")", FullLike, kPlain, kComplexToo},
    {"new_zeros(Tensor self, SymInt[] size, " FACTORY_ARGS ")", NewFilled, kPlain, kComplexToo},
    {"new_ones(Tensor self, SymInt[] size, " FACTORY_ARGS ")", NewFilled, kPlain, kComplexToo},
    {"new_empty(Tensor self, SymInt[] size, " FACTORY_ARGS ")", NewFilled, kPlain, kComplexToo},
    {"new_full(Tensor self, SymInt[] size, Scalar fill_value, " FACTORY_ARGS ")", NewFull, kPlain, kComplexToo},
    {"scalar_tensor(Scalar s, " FACTORY_ARGS ")", ScalarTensor, kPlain, kComplexToo},
    {"fill.Scalar,Tensor(Tensor self, Any value)", FillWith, kPlain, kComplexToo},
    {"zero(Tensor self)", Zero, kPlain, kComplexToo},
    {"copy(Tensor self, Tensor src, bool non_blocking=False)", Copy, kPlain, kComplexToo},
    {"arange(Scalar end, " FACTORY_ARGS ")", ArangeEnd},
    {"arange.start(Scalar start, Scalar end, " FACTORY_ARGS ")", ArangeStart},
    {"arange.start_step(Scalar start, Scalar end, Scalar step=1, " FACTORY_ARGS ")", ArangeStep},
    {"linspace.default,Tensor_Tensor,Tensor_Scalar,Scalar_Tensor(Any start, Any end, int steps, " FACTORY_ARGS ")",
     Linspace},
    {"logspace.default,Tensor_Tensor,Tensor_Scalar,Scalar_Tensor(Any start, Any end, int steps, float "
     "base=10.0, " FACTORY_ARGS ")",
     Logspace},
    {"eye(SymInt n, " FACTORY_ARGS ")", Eye},
    {"eye.m(SymInt n, SymInt m, " FACTORY_ARGS ")", EyeRectangle},
    {"tril_indices(int row, int col, int offset=0, " FACTORY_ARGS ")", TriangleIndices},
    {"triu_indices(int row, int col, int offset=0, " FACTORY_ARGS ")", TriangleIndices},
    {"tril(Tensor self, SymInt diagonal=0)", Triangle, kPlain, kComplexToo},
    {"triu(Tensor self, SymInt diagonal=0)", Triangle, kPlain, kComplexToo},
    {"diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1)", DiagEmbed, kPlain, kComplexToo},
    {"diagflat(Tensor self, int offset=0)", DiagFlat, kPlain, kComplexToo},
    {"diag(Tensor self, int diagonal=0)", Diag, kPlain, kComplexToo},
    {"to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
     "memory_format=None)",
     ToDtype, RuleKind::kSelf, kComplexToo},
    {"to.dtype_layout(Tensor self, " FACTORY_ARGS
     ", bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None)",
     ToDtype, RuleKind::kSelf, kComplexToo},
    {"to.device(Tensor self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
     "memory_format=None)",
     ToDevice, RuleKind::kSelf, kComplexToo},
    {"to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None)",
     TypeAs, RuleKind::kSelf, kComplexToo},
    {"_to_copy(Tensor self, " FACTORY_ARGS ", bool non_blocking=False, MemoryFormat? memory_format=None)", ToDtype,
     kPlain, kComplexToo},
    {"type_as(Tensor self, Tensor other)", TypeAs, RuleKind::kSelf, kComplexToo},
};
#undef FACTORY_ARGS
#undef LIKE_ARGS

}  // namespace

std::span<const Rule> CreationRules() { return kRules; }

}  // namespace ferry::torch

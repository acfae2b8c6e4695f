// Parts of tensors: select, slice, split and their relatives, all of them views.
#include <algorithm>

#include "torch/lower/families.h"
#include "torch/lower/lowerer.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

Result Select(Call& c) {
  Operand x = c.Tensor(0);
  Scalar index = c.Number(2);
  return c.b.Gather(x, index.is_known() ? c.b.Int(index.AsInt()) : c.b.AsRank0(index.computed()), c.Int(1));
}

Result Slice(Call& c) {
  Scalar begin = c.IsNone(2) ? Scalar(0) : c.Number(2);
  Scalar end = c.IsNone(3) ? Scalar(INT64_MAX) : c.Number(3);
  return c.b.Slice(c.Tensor(0), c.Int(1), begin, end, c.Int(4));
}

// begin + length, for a begin that may count from the end.
Scalar EndOf(Call& c, const Operand& x, int64_t axis, const Scalar& begin, const Scalar& length) {
  if (begin.is_known() && length.is_known()) {
    int64_t first = begin.AsInt();
    Dim size = x.dim(axis);
    if (first < 0 && size.known()) first += *size.value;
    if (first >= 0) return Scalar(first + length.AsInt());
    if (first + length.AsInt() == 0) return Scalar(INT64_MAX);
    return Scalar(first + length.AsInt());
  }
  return Scalar(Scalar::Kind::kInt, c.b.Add(c.b.AsVector(begin), c.b.AsVector(length)));
}
Result Narrow(Call& c) {
  Operand x = c.Tensor(0);
  TensorOrNumber start = c.Any(2);
  Scalar begin = std::holds_alternative<Scalar>(start)
                     ? std::get<Scalar>(start)
                     : Scalar(Scalar::Kind::kInt, c.b.Cast(c.b.Reshape(std::get<Operand>(start), {1}), DType::kInt64));
  return c.b.Slice(x, c.Int(1), begin, EndOf(c, x, c.Int(1), begin, c.Number(3)));
}

// Cuts at the given positions; the first part begins at 0, the last one ends where the axis does.
Result CutAt(Call& c, const Operand& x, int64_t axis, const std::vector<int64_t>& cuts) {
  Operands parts;
  int64_t begin = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    int64_t end = i < cuts.size() ? cuts[i] : INT64_MAX;
    parts.push_back(c.b.Slice(x, axis, Scalar(begin), Scalar(end)));
    begin = end;
  }
  return parts;
}

Result SplitInto(Call& c, const Operand& x, int64_t axis, const std::vector<int64_t>& sizes) {
  if (sizes.size() == 1) return x;
  auto at = static_cast<int64_t>(x.Axis(axis));
  Operands parts = c.b.EmitMany("Split", {x.AsPairs(), c.b.Ints(sizes)}, {{"axis", at}}, sizes.size());
  if (x.is_complex())
    for (Operand& part : parts) part = part.AsComplex();
  return parts;
}

// Pieces of `size`, the last one with what is left.
Result SplitEvenly(Call& c, const Operand& x, int64_t axis, int64_t size) {
  Dim total = x.dim(axis);
  Require(size >= 0, "cannot split into pieces of ", size);
  if (total.known()) {
    if (size == 0 || *total.value == 0) return x;
    int64_t whole = *total.value / size, rest = *total.value % size;
    RequireFewNodes(static_cast<double>(whole));
    std::vector<int64_t> sizes(static_cast<size_t>(whole), size);
    if (rest > 0) sizes.push_back(rest);
    return SplitInto(c, x, axis, sizes);
  }
  if (c.result_count() == 0) c.Unsupported("an axis whose size is not known is split");
  std::vector<int64_t> cuts;
  for (size_t i = 1; i < c.result_count(); ++i) cuts.push_back(CheckedProduct(static_cast<int64_t>(i), size));
  return CutAt(c, x, axis, cuts);
}
Result SplitWithSizes(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<Scalar> sizes = c.Numbers(1);
  bool known = std::all_of(sizes.begin(), sizes.end(), [](const Scalar& s) { return s.is_known(); });
  if (known) return SplitInto(c, x, c.Int(2), c.Ints(1));
  if (sizes.size() == 1) return Operands{x};
  size_t at = x.Axis(c.Int(2));
  Operands parts =
      c.b.EmitMany("Split", {x.AsPairs(), c.b.ShapeVector(sizes)}, {{"axis", static_cast<int64_t>(at)}}, sizes.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    Dim size = sizes[i].AsDim();
    if (!size.unknown()) (*parts[i].record()->facts.type.shape)[at] = size;
    if (x.is_complex()) parts[i] = parts[i].AsComplex();
  }
  return parts;
}
Result Split(Call& c) {
  if (c.arg(1).get<Arg::List>()) return SplitWithSizes(c);
  return SplitEvenly(c, c.Tensor(0), c.Int(2), c.Int(1));
}
Result Chunk(Call& c) {
  Operand x = c.Tensor(0);
  int64_t chunks = c.PositiveInt(1), axis = c.Int(2);
  RequireFewNodes(static_cast<double>(chunks));
  Dim total = x.dim(axis);
  if (!total.known()) c.Unsupported("an axis whose size is not known is cut into chunks");
  int64_t size = *total.value / chunks + (*total.value % chunks != 0);
  if (*total.value == 0) return Operands(static_cast<size_t>(chunks), x);
  return SplitEvenly(c, x, axis, size);
}

// Sections as even as can be, the first ones larger by one.
Result Sections(Call& c, const Operand& x, int64_t sections, int64_t axis) {
  Dim total = x.dim(axis);
  if (!total.known()) c.Unsupported("an axis whose size is not known is split");
  Require(sections > 0, "cannot split into ", sections, " sections");
  RequireFewNodes(static_cast<double>(sections));
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < sections; ++i) sizes.push_back(*total.value / sections + (i < *total.value % sections));
  return SplitInto(c, x, axis, sizes);
}
Result TensorSplitAlong(Call& c, const Operand& x, int64_t axis) {
  if (c.arg(1).get<Arg::List>()) return CutAt(c, x, axis, c.Ints(1));
  return Sections(c, x, c.Int(1), axis);
}
Result TensorSplit(Call& c) { return TensorSplitAlong(c, c.Tensor(0), c.Int(2)); }
// The same with cuts, or a number of sections, that are only known while the model runs.
Result SplitWhileRunning(Call& c, const Operand& x, const Operand& where, int64_t axis) {
  size_t parts = c.result_count();
  if (parts == 0) c.Unsupported("into how many parts is not known");
  auto number = [&](const Operand& value) { return Scalar(Scalar::Kind::kInt, c.b.Reshape(value, {1})); };
  std::vector<Scalar> cuts = {Scalar(0)};
  Operand total = c.b.AsRank0(c.b.SizeOf(x, axis)), sections = c.b.Cast(where, DType::kInt64);
  for (size_t i = 1; i < parts; ++i) {
    Operand part = c.b.Int(static_cast<int64_t>(i));
    if (where.rank() == 0)
      cuts.push_back(
          number(c.b.Add(c.b.Mul(c.b.Div(total, sections), part), c.b.Min(c.b.Emit("Mod", {total, sections}), part))));
    else
      cuts.push_back(number(c.b.Select(sections, 0, static_cast<int64_t>(i) - 1)));
  }
  cuts.push_back(Scalar(INT64_MAX));
  Operands results;
  for (size_t i = 0; i < parts; ++i) results.push_back(c.b.Slice(x, axis, cuts[i], cuts[i + 1]));
  return results;
}
Result TensorSplitByTensor(Call& c) {
  Operand where = c.Tensor(1);
  if (!where.constant()) return SplitWhileRunning(c, c.Tensor(0), where, c.Int(2));
  std::vector<int64_t> values = ToInt64Vector(*where.constant());
  if (where.rank() == 0) return Sections(c, c.Tensor(0), values.at(0), c.Int(2));
  return CutAt(c, c.Tensor(0), c.Int(2), values);
}
Result HSplit(Call& c) {
  Operand x = c.Tensor(0);
  return TensorSplitAlong(c, x, x.rank() == 1 ? 0 : 1);
}
Result VSplit(Call& c) { return TensorSplitAlong(c, c.Tensor(0), 0); }
Result DSplit(Call& c) { return TensorSplitAlong(c, c.Tensor(0), 2); }

Result Unbind(Call& c) {
  Operand x = c.Tensor(0);
  int64_t axis = c.Int(1);
  Dim size = x.dim(axis);
  if (!size.known()) c.Unsupported("an axis whose size is not known is unbound");
  RequireFewNodes(static_cast<double>(*size.value));
  Operands parts;
  for (int64_t i = 0; i < *size.value; ++i) parts.push_back(c.b.Select(x, axis, i));
  return parts;
}

// Elements (i, i + offset) of two axes, as a new last axis.
Operand DiagonalOf(Call& c, const Operand& x, int64_t offset, int64_t dim1, int64_t dim2) {
  Builder& b = c.b;
  size_t first = x.Axis(dim1), second = x.Axis(dim2);
  Require(first != second, "the two dimensions of a diagonal are the same");
  std::vector<int64_t> order;
  for (size_t axis = 0; axis < x.rank(); ++axis)
    if (axis != first && axis != second) order.push_back(static_cast<int64_t>(axis));
  std::vector<Scalar> sizes;
  for (int64_t axis : order) sizes.push_back(b.SizeScalar(x, axis));
  sizes.push_back(Scalar(-1));
  order.push_back(static_cast<int64_t>(first));
  order.push_back(static_cast<int64_t>(second));
  Operand rows = b.AsRank0(b.SizeOf(x, dim1)), columns = b.AsRank0(b.SizeOf(x, dim2));
  int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  Operand length = b.Max(b.Min(b.Sub(rows, b.Int(down)), b.Sub(columns, b.Int(right))), b.Int(0));
  Operand steps = b.Range(b.Int(0), length, b.Int(1));
  Operand indices = b.Add(b.Mul(b.Add(steps, b.Int(down)), columns), b.Add(steps, b.Int(right)));
  return b.Gather(b.View(b.Transpose(x, order), sizes), indices, -1);
}
Result Diagonal(Call& c) { return DiagonalOf(c, c.Tensor(0), c.Int(1), c.Int(2), c.Int(3)); }

// Element (i, j …) lies at offset + i * stride[0] + j * stride[1] …
Operand StridedIndices(Call& c, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                       int64_t offset) {
  Require(sizes.size() == strides.size(), "there are ", sizes.size(), " sizes and ", strides.size(), " strides");
  Operand indices = c.b.Int(offset);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    Operand steps = c.b.Mul(c.b.Range(c.b.Int(0), c.b.Int(sizes[axis]), c.b.Int(1)), c.b.Int(strides[axis]));
    indices = c.b.Add(c.b.Unsqueeze(indices, {-1}), steps);
  }
  return indices;
}
Result AsStrided(Call& c) {
  int64_t offset = 0;
  if (c.IsNone(3)) {
    Dim own = c.LayoutOf(0).storage_offset;
    if (!own.known()) c.Unsupported("where the tensor begins is not a constant");
    offset = *own.value;
  } else {
    offset = c.Int(3);
  }
  return c.b.Gather(c.StorageOf(0), StridedIndices(c, c.Ints(1), c.Ints(2), offset), 0);
}

Result DiagonalScatter(Call& c) {
  auto view = [&](const Operand& x) { return DiagonalOf(c, x, c.Int(2), c.Int(3), c.Int(4)); };
  return c.b.WriteThrough(c.Tensor(0), c.Tensor(1), view);
}
Result AsStridedScatter(Call& c) {
  const TensorMeta& layout = c.LayoutOf(0);
  if (!IsContiguous(layout) || !SameDim(layout.storage_offset, Dim(0)))
    c.Unsupported("it writes to memory that is not laid out row by row");
  auto view = [&](const Operand& x) {
    Operand indices = StridedIndices(c, c.Ints(2), c.Ints(3), c.IsNone(4) ? 0 : c.Int(4));
    return c.b.Gather(c.b.Reshape(x, {-1}), indices, 0);
  };
  return c.b.WriteThrough(c.Tensor(0), c.Tensor(1), view);
}

// Windows along one axis; the elements of a window become a new last axis.
Result Unfold(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  int64_t size = c.Int(2), step = c.Int(3);
  if (x.rank() == 0) return b.Reshape(x, {1});
  size_t axis = x.Axis(c.Int(1));
  Operand total = b.AsRank0(b.SizeOf(x, static_cast<int64_t>(axis)));
  Operand starts = b.Range(b.Int(0), b.Add(b.Sub(total, b.Int(size)), b.Int(1)), b.Int(step));
  Operand indices = b.Add(b.Unsqueeze(starts, {1}), b.Range(b.Int(0), b.Int(size), b.Int(1)));
  return b.MoveAxis(b.Gather(x, indices, static_cast<int64_t>(axis)), static_cast<int64_t>(axis) + 1, -1);
}

constexpr RuleKind kView = RuleKind::kView;
constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"select.int(Tensor self, int dim, SymInt index)", Select, kView, kComplexToo},
    {"slice.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)", Slice, kView,
     kComplexToo},
    {"narrow.default,Tensor(Tensor self, int dim, Any start, SymInt length)", Narrow, kView, kComplexToo},
    {"split.Tensor(Tensor self, SymInt split_size, int dim=0)", Split, kView, kComplexToo},
    {"split.default(Tensor self, SymInt[] split_sizes, int dim=0)", Split, kView, kComplexToo},
    {"split.sizes(Tensor self, SymInt[] split_size, int dim=0)", Split, kView, kComplexToo},
    {"unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0)", Split, kPlain, kComplexToo},
    {"split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0)", SplitWithSizes, kView, kComplexToo},
    {"unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0)", SplitWithSizes, kPlain, kComplexToo},
    {"chunk(Tensor self, int chunks, int dim=0)", Chunk, kView, kComplexToo},
    {"unsafe_chunk(Tensor self, int chunks, int dim=0)", Chunk, kPlain, kComplexToo},
    {"tensor_split.sections(Tensor self, SymInt sections, int dim=0)", TensorSplit, kView, kComplexToo},
    {"tensor_split.indices(Tensor self, SymInt[] indices, int dim=0)", TensorSplit, kView, kComplexToo},
    {"tensor_split.tensor_indices_or_sections(Tensor self, Tensor tensor_indices_or_sections, int dim=0)",
     TensorSplitByTensor, kView, kComplexToo},
    {"hsplit.int(Tensor self, int sections)", HSplit, kView, kComplexToo},
    {"hsplit.array(Tensor self, int[] indices)", HSplit, kView, kComplexToo},
    {"vsplit.int(Tensor self, int sections)", VSplit, kView, kComplexToo},
    {"vsplit.array(Tensor self, int[] indices)", VSplit, kView, kComplexToo},
    {"dsplit.int(Tensor self, int sections)", DSplit, kView, kComplexToo},
    {"dsplit.array(Tensor self, int[] indices)", DSplit, kView, kComplexToo},
    {"unbind.int(Tensor self, int dim=0)", Unbind, kView, kComplexToo},
    {"diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1)", Diagonal, kView, kComplexToo},
    {"linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1)", Diagonal, kView, kComplexToo},
    {"as_strided(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None)", AsStrided,
     RuleKind::kReadOnly, kComplexToo},
    {"diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1)", DiagonalScatter, kPlain,
     kComplexToo},
    {"as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None)",
     AsStridedScatter, kPlain, kComplexToo},
    {"unfold(Tensor self, int dimension, int size, int step)", Unfold, kView, kComplexToo},
};

}  // namespace

std::span<const Rule> SliceRules() { return kRules; }

}  // namespace ferry::torch

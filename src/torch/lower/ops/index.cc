// Reading and writing elements by index.
#include <algorithm>
#include <limits>
#include <numeric>

#include "torch/lower/families.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Operand Indices(Call& c, const Operand& x) {
  return x.dtype() == DType::kInt64 || x.dtype() == DType::kInt32 ? x : c.b.Cast(x, DType::kInt64);
}

// --- x[i, :, mask, …]

// The index of each axis, or none for a whole axis. A mask stands for as many axes as it has.
Operands AxisIndices(Call& c, const Operands& given, size_t rank) {
  Operands indices;
  for (const Operand& index : given) {
    if (!index) {
      indices.emplace_back();
    } else if (index.dtype() == DType::kBool || index.dtype() == DType::kUInt8) {
      Operand where = c.b.Emit("NonZero", {c.b.Cast(index, DType::kBool)});  // [axes, found]
      if (index.rank() == 0) c.Unsupported("a single truth value is used as an index");
      for (size_t axis = 0; axis < index.rank(); ++axis)
        indices.push_back(c.b.Select(where, 0, static_cast<int64_t>(axis)));
    } else {
      indices.push_back(Indices(c, index));
    }
  }
  if (indices.size() > rank) c.Unsupported(indices.size(), " indices for ", rank, " dimensions");
  indices.resize(rank);
  return indices;
}

// The axes that are indexed brought to the front, their indices stacked as GatherND wants them.
struct Indexed {
  std::vector<int64_t> order;  // indexed axes, then the others
  size_t count = 0;            // how many are indexed
  size_t result_axis = 0;      // where the axes of the indices go in the result
  Operand stacked;             // [… index shape …, count]
  size_t index_rank = 0;
};
Indexed Arrange(Call& c, const Operands& indices) {
  Indexed indexed;
  Operands used;
  bool adjacent = true;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (!indices[axis]) continue;
    adjacent = adjacent && (used.empty() || indices[axis - 1]);
    if (used.empty()) indexed.result_axis = axis;
    indexed.order.push_back(static_cast<int64_t>(axis));
    used.push_back(c.b.Cast(indices[axis], DType::kInt64));
  }
  for (size_t axis = 0; axis < indices.size(); ++axis)
    if (!indices[axis]) indexed.order.push_back(static_cast<int64_t>(axis));
  indexed.count = used.size();
  if (!adjacent) indexed.result_axis = 0;
  Operand shape = used[0];
  for (size_t i = 1; i < used.size(); ++i) shape = c.b.Add(shape, used[i]);
  indexed.index_rank = shape.rank();
  Operands columns;
  for (const Operand& index : used) columns.push_back(c.b.Unsqueeze(c.b.ExpandLike(index, shape), {-1}));
  indexed.stacked = c.b.Concat(columns, -1);
  return indexed;
}

// Moves the first `count` axes so that they begin at `target`.
Operand MoveFrontTo(Call& c, const Operand& x, size_t count, size_t target) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < target; ++i) order.push_back(static_cast<int64_t>(count + i));
  for (size_t i = 0; i < count; ++i) order.push_back(static_cast<int64_t>(i));
  for (size_t i = count + target; i < x.rank(); ++i) order.push_back(static_cast<int64_t>(i));
  return c.b.Transpose(x, order);
}

Operand GatherNd(Call& c, const Operand& x, const Operand& indices) {
  Operand gathered = c.b.Emit("GatherND", {x.AsPairs(), indices});
  return x.is_complex() ? gathered.AsComplex() : gathered;
}

Operand IndexOf(Call& c, const Operand& x, const Operands& given) {
  Operands indices = AxisIndices(c, given, x.rank());
  auto used =
      static_cast<size_t>(std::count_if(indices.begin(), indices.end(), [](const Operand& i) { return bool(i); }));
  if (used == 0) return x;
  if (used == 1) {
    auto axis = std::find_if(indices.begin(), indices.end(), [](const Operand& i) { return bool(i); });
    return c.b.Gather(x, *axis, axis - indices.begin());
  }
  Indexed indexed = Arrange(c, indices);
  Operand gathered = GatherNd(c, c.b.Transpose(x, indexed.order), indexed.stacked);
  return MoveFrontTo(c, gathered, indexed.index_rank, indexed.result_axis);
}
Result Index(Call& c) { return IndexOf(c, c.Tensor(0), c.Tensors(1)); }

// Where the index axes stand in the middle of a result, values must be turned the other way round.
Operand ValuesInFront(Call& c, const Operand& values, size_t index_rank, size_t result_axis, size_t result_rank) {
  if (result_axis == 0) return values;
  std::vector<int64_t> leading(result_rank - values.rank());
  std::iota(leading.begin(), leading.end(), 0);
  Operand full = c.b.Unsqueeze(values, leading);
  std::vector<int64_t> order;
  for (size_t i = 0; i < index_rank; ++i) order.push_back(static_cast<int64_t>(result_axis + i));
  for (size_t i = 0; i < result_axis; ++i) order.push_back(static_cast<int64_t>(i));
  for (size_t i = result_axis + index_rank; i < result_rank; ++i) order.push_back(static_cast<int64_t>(i));
  return c.b.Transpose(full, order);
}

Operand ScatterNd(Call& c, const Operand& x, const Operand& indices, const Operand& updates, const char* reduction) {
  Attributes attributes;
  if (std::string_view(reduction) != "none") attributes.push_back({"reduction", std::string(reduction)});
  Operand scattered = c.b.Emit("ScatterND", {x.AsPairs(), indices, updates.AsPairs()}, attributes);
  return x.is_complex() ? scattered.AsComplex() : scattered;
}

Operand IndexPutOf(Call& c, const Operand& x, const Operands& given, Operand values, bool accumulate) {
  values = c.b.CastLike(values, x);
  bool only_mask = given.size() == 1 && given[0] && given[0].dtype() == DType::kBool && !accumulate;
  if (only_mask && values.rank() == 0) {
    std::vector<int64_t> trailing;
    for (size_t axis = given[0].rank(); axis < x.rank(); ++axis) trailing.push_back(static_cast<int64_t>(axis));
    return c.b.Where(c.b.Unsqueeze(given[0], trailing), values, x);
  }
  Operands indices = AxisIndices(c, given, x.rank());
  Indexed indexed = Arrange(c, indices);
  Operand front = c.b.Transpose(x, indexed.order);
  size_t result_rank = indexed.index_rank + x.rank() - indexed.count;
  Operand turned = ValuesInFront(c, values, indexed.index_rank, indexed.result_axis, result_rank);
  // Values broadcast to what reading the same places would give.
  Operand updates = c.b.ExpandLike(turned, GatherNd(c, front, indexed.stacked));
  Operand scattered = ScatterNd(c, front, indexed.stacked, updates, accumulate ? "add" : "none");
  std::vector<int64_t> back(x.rank());
  for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(indexed.order[i])] = static_cast<int64_t>(i);
  return c.b.Transpose(scattered, back);
}
Result IndexPut(Call& c) { return IndexPutOf(c, c.Tensor(0), c.Tensors(1), c.Tensor(2), c.Bool(3)); }

// Out-of-range indices are taken to the edge, and what the mask excludes is not written.
Result UnsafeMaskedIndexPut(Call& c) {
  Operand x = c.Tensor(0), mask = c.Tensor(1), values = c.Tensor(3);
  Operands clamped;
  size_t axis = 0;
  for (const Operand& index : c.Tensors(2)) {
    if (index) {
      Operand last = c.b.Sub(c.b.SizeOf(x, static_cast<int64_t>(axis)), c.b.Ints({1}));
      clamped.push_back(c.b.Max(c.b.Min(Indices(c, index), c.b.AsRank0(last)),
                                c.b.Neg(c.b.AsRank0(c.b.SizeOf(x, static_cast<int64_t>(axis))))));
    } else {
      clamped.emplace_back();
    }
    ++axis;
  }
  Operand masked = c.b.Where(mask, c.b.CastLike(values, x), c.b.NumberLike(0, x));
  return IndexPutOf(c, x, clamped, masked, true);
}
Result UnsafeMaskedIndex(Call& c) {
  Operand x = c.Tensor(0), mask = c.Tensor(1);
  Operands clamped;
  size_t axis = 0;
  for (const Operand& index : c.Tensors(2)) {
    Operand size = c.b.AsRank0(c.b.SizeOf(x, static_cast<int64_t>(axis++)));
    clamped.push_back(index ? c.b.Max(c.b.Min(Indices(c, index), c.b.Sub(size, c.b.Int(1))), c.b.Neg(size)) : index);
  }
  return c.b.Where(mask, IndexOf(c, x, clamped), c.b.Of(c.Number(3), x.dtype()));
}

// --- along one axis

// Scalars take part as vectors of one element.
Operand AtLeastVector(Builder& b, const Operand& x) { return x.rank() == 0 ? b.Reshape(x, {1}) : x; }
Operand LikeShape(Builder& b, const Operand& x, const Operand& like) {
  return like.rank() == 0 ? b.Reshape(x, std::vector<int64_t>{}) : x;
}

Result IndexSelect(Call& c) {
  Operand x = c.Tensor(0);
  return LikeShape(c.b, c.b.Gather(AtLeastVector(c.b, x), AtLeastVector(c.b, Indices(c, c.Tensor(2))), c.Int(1)), x);
}
Operand GatherElements(Call& c, const Operand& x, const Operand& index, int64_t axis) {
  if (x.is_complex())
    return c.b.MakeComplex(GatherElements(c, c.b.Real(x), index, axis),
                           GatherElements(c, c.b.Imaginary(x), index, axis));
  Operand data = AtLeastVector(c.b, x), where = AtLeastVector(c.b, Indices(c, index));
  Operand gathered = c.b.Emit("GatherElements", {data, where}, {{"axis", static_cast<int64_t>(data.Axis(axis))}});
  return LikeShape(c.b, gathered, index);
}
Result Gather(Call& c) {
  Operand x = c.Tensor(0), index = c.Tensor(2);
  // An index without elements need not have the rank of what it picks from.
  bool empty = false;
  for (size_t axis = 0; axis < index.rank(); ++axis) empty |= index.dim(static_cast<int64_t>(axis)).value == 0;
  if (empty && index.rank() != x.rank() && !x.is_complex())
    return c.b.Fill(0.0, x.dtype(), c.b.ShapeVector(c.b.Sizes(index)));
  return GatherElements(c, x, index, c.Int(1));
}
// Both broadcast but for the axis itself.
Result TakeAlongDim(Call& c) {
  Operand x = c.Tensor(0), index = c.Tensor(1);
  if (c.IsNone(2)) return GatherElements(c, c.b.Reshape(x, {-1}), c.b.Reshape(index, {-1}), 0);
  size_t axis = x.Axis(c.Int(2));
  auto widen = [&](const Operand& from, const Operand& to) {
    std::vector<Scalar> sizes = c.b.Sizes(to);
    sizes[axis] = Scalar(1);
    return c.b.Expand(from, c.b.ShapeVector(sizes));
  };
  return GatherElements(c, widen(x, index), widen(index, x), static_cast<int64_t>(axis));
}
Result Take(Call& c) { return c.b.Gather(c.b.Reshape(c.Tensor(0), {-1}), Indices(c, c.Tensor(1)), 0); }
Result Embedding(Call& c) { return c.b.Gather(c.Tensor(0), Indices(c, c.Tensor(1)), 0); }

Operand ScatterElements(Call& c, const Operand& x, int64_t axis, const Operand& index, const Operand& source,
                        const char* reduction) {
  if (x.is_complex()) {
    Operand real = ScatterElements(c, c.b.Real(x), axis, index, c.b.Real(source), reduction);
    return c.b.MakeComplex(real, ScatterElements(c, c.b.Imaginary(x), axis, index, c.b.Imaginary(source), reduction));
  }
  Operand data = AtLeastVector(c.b, x), where = AtLeastVector(c.b, Indices(c, index)),
          updates = AtLeastVector(c.b, source);
  // PyTorch reads only as much of the source as there are indices.
  for (size_t i = 0; i < where.rank(); ++i) {
    auto at = static_cast<int64_t>(i);
    if (!SameDim(where.dim(at), updates.dim(at)))
      updates = c.b.Slice(updates, at, Scalar(0), c.b.SizeScalar(where, at));
  }
  Attributes attributes = {{"axis", static_cast<int64_t>(data.Axis(axis))}};
  if (std::string_view(reduction) != "none") attributes.push_back({"reduction", std::string(reduction)});
  return LikeShape(c.b, c.b.Emit("ScatterElements", {data, where, updates}, attributes), x);
}
Operand SourceFor(Call& c, const Operand& x, const Operand& index, size_t i) {
  TensorOrNumber value = c.Any(i);
  if (std::holds_alternative<Operand>(value)) return std::get<Operand>(value);
  return c.b.ExpandLike(c.b.Of(std::get<Scalar>(value), x.dtype()), index);
}
Result Scatter(Call& c) {
  Operand x = c.Tensor(0), index = c.Tensor(2);
  return ScatterElements(c, x, c.Int(1), index, SourceFor(c, x, index, 3), "none");
}
Result ScatterReduceOld(Call& c) {
  Operand x = c.Tensor(0), index = c.Tensor(2);
  return ScatterElements(c, x, c.Int(1), index, SourceFor(c, x, index, 3), c.Text(4) == "add" ? "add" : "mul");
}
Result ScatterAdd(Call& c) { return ScatterElements(c, c.Tensor(0), c.Int(1), c.Tensor(2), c.Tensor(3), "add"); }

// What changes nothing when it takes part in a reduction.
Operand NeutralOf(Builder& b, std::string_view reduce, DType dtype) {
  if (reduce == "prod") return b.Number(1, dtype);
  bool largest = reduce == "amax";
  if (reduce != "amax" && reduce != "amin") return b.Number(0, dtype);
  if (IsFloating(dtype)) return b.Number(largest ? -kInfinity : kInfinity, dtype);
  if (dtype == DType::kInt64) return b.Int(largest ? INT64_MIN : INT64_MAX);  // no double is that
  auto [lowest, highest] = FiniteRange(dtype);
  return b.Number(largest ? lowest : highest, dtype);
}
// sum, prod, mean, amax, amin; without self, what is written to starts afresh.
Operand ReduceInto(Call& c, const Operand& x, int64_t axis, const Operand& index, const Operand& source,
                   const std::string& reduce, bool include_self) {
  Operand start = x;
  auto like_source = [&](const Operand& number) { return c.b.ExpandLike(number, source); };
  if (!include_self) start = ScatterElements(c, x, axis, index, like_source(NeutralOf(c.b, reduce, x.dtype())), "none");
  if (reduce == "prod") return ScatterElements(c, start, axis, index, source, "mul");
  if (reduce == "amax") return ScatterElements(c, start, axis, index, source, "max");
  if (reduce == "amin") return ScatterElements(c, start, axis, index, source, "min");
  Operand sum = ScatterElements(c, start, axis, index, source, "add");
  if (reduce == "sum") return sum;
  if (reduce != "mean") c.Unsupported("the reduction '", reduce, "' is unknown");
  Operand counts = c.b.Fill(include_self ? 1 : 0, x.dtype(), c.b.ShapeOf(x));
  counts = ScatterElements(c, counts, axis, index, like_source(c.b.NumberLike(1, x)), "add");
  counts = c.b.Max(counts, c.b.NumberLike(1, x));
  return IsFloating(x.dtype()) ? c.b.Div(sum, counts) : c.b.FloorDivide(sum, counts);
}
Result ScatterReduce(Call& c) {
  return ReduceInto(c, c.Tensor(0), c.Int(1), c.Tensor(2), c.Tensor(3), c.Text(4), c.Bool(5));
}

// An index vector spread over a source that has whole slices at each of its places.
Operand SpreadIndex(Call& c, const Operand& index, const Operand& source, int64_t axis) {
  Operand vector = AtLeastVector(c.b, Indices(c, index));
  std::vector<int64_t> shape(source.rank(), 1);
  if (source.rank() == 0) return vector;
  shape[source.Axis(axis)] = -1;
  return c.b.ExpandLike(c.b.Reshape(vector, shape), source);
}
Result IndexAdd(Call& c) {
  Operand x = c.Tensor(0), source = c.b.CastLike(c.Tensor(3), x);
  Scalar alpha = c.Number(4);
  if (!alpha.is_known() || alpha.AsComplex() != 1.0) source = c.b.Mul(source, c.b.Of(alpha, x.dtype()));
  return ScatterElements(c, x, c.Int(1), SpreadIndex(c, c.Tensor(2), AtLeastVector(c.b, source), c.Int(1)), source,
                         "add");
}
Result IndexCopy(Call& c) {
  Operand source = AtLeastVector(c.b, c.Tensor(3));
  return ScatterElements(c, c.Tensor(0), c.Int(1), SpreadIndex(c, c.Tensor(2), source, c.Int(1)), source, "none");
}
Result IndexFill(Call& c) {
  Operand x = AtLeastVector(c.b, c.Tensor(0)), index = AtLeastVector(c.b, Indices(c, c.Tensor(2)));
  std::vector<Scalar> sizes = c.b.Sizes(x);
  sizes[x.Axis(c.Int(1))] = c.b.SizeScalar(index, 0);
  Operand source = c.b.Expand(c.As(c.Any(3), x.dtype()), c.b.ShapeVector(sizes));
  return LikeShape(c.b, ScatterElements(c, x, c.Int(1), SpreadIndex(c, index, source, c.Int(1)), source, "none"),
                   c.Tensor(0));
}
Result IndexReduce(Call& c) {
  Operand source = AtLeastVector(c.b, c.Tensor(3));
  return ReduceInto(c, c.Tensor(0), c.Int(1), SpreadIndex(c, c.Tensor(2), source, c.Int(1)), source, c.Text(4),
                    c.Bool(5));
}
Result Put(Call& c) {
  Operand x = c.Tensor(0), flat = c.b.Reshape(x, {-1});
  Operand index = c.b.Reshape(Indices(c, c.Tensor(1)), {-1}), source = c.b.Reshape(c.Tensor(2), {-1});
  return c.b.Reshape(ScatterElements(c, flat, 0, index, source, c.Bool(3) ? "add" : "none"), c.b.ShapeOf(x));
}

// --- by truth

Result MaskedSelect(Call& c) {
  Operand x = c.Tensor(0), mask = c.Tensor(1);
  Operand shape = c.b.Or(c.b.Cast(c.b.Fill(0, DType::kBool, c.b.ShapeOf(x)), DType::kBool), mask);
  return c.b.Emit("Compress",
                  {c.b.Reshape(c.b.ExpandLike(x, shape), {-1}), c.b.Reshape(c.b.ExpandLike(mask, shape), {-1})},
                  {{"axis", int64_t{0}}});
}
// The n-th true place takes the n-th element of the source.
Result MaskedScatter(Call& c) {
  Operand chosen = c.b.Cast(c.Tensor(1), DType::kBool), source = c.b.Reshape(c.Tensor(2), {-1});
  // Either may broadcast to the other.
  Operand x = c.b.Expand(c.Tensor(0), c.b.ShapeOf(chosen)), mask = c.b.ExpandLike(chosen, x);
  Operand order = c.b.Emit("CumSum", {c.b.Cast(c.b.Reshape(mask, {-1}), DType::kInt64), c.b.Int(0)});
  Operand index = c.b.Max(c.b.Sub(order, c.b.Int(1)), c.b.Int(0));
  Operand taken = c.b.Reshape(c.b.Gather(source, index, 0), c.b.ShapeOf(x));
  return c.b.Where(mask, taken, x);
}
Operand NonzeroOf(Call& c, const Operand& x) {
  if (x.rank() == 0) {
    // One place without coordinates when it is not zero, else none.
    Operand found = c.b.Reshape(c.b.Cast(c.b.Cast(x, DType::kBool), DType::kInt64), {1});
    return c.b.Fill(0, DType::kInt64, c.b.Concat({found, c.b.Ints({0})}, 0));
  }
  return c.b.SwapAxes(c.b.Emit("NonZero", {x}), 0, 1);
}
Result Nonzero(Call& c) { return NonzeroOf(c, c.Tensor(0)); }
Result NonzeroNumpy(Call& c) {
  Operand x = AtLeastVector(c.b, c.Tensor(0)), where = c.b.Emit("NonZero", {x});
  Operands columns;
  for (size_t axis = 0; axis < x.rank(); ++axis) columns.push_back(c.b.Select(where, 0, static_cast<int64_t>(axis)));
  return columns;
}
// The first `size` places, filled up when there are fewer.
Result NonzeroStatic(Call& c) {
  Operand found = NonzeroOf(c, c.Tensor(0));
  int64_t size = c.Int(1);
  Operand filler = c.b.Fill(c.Float(2), DType::kInt64, c.b.Ints({size, static_cast<int64_t>(c.Tensor(0).rank())}));
  return c.b.Slice(c.b.Concat({found, filler}, 0), 0, Scalar(0), Scalar(size));
}

// --- a part overwritten

Result SelectScatter(Call& c) {
  int64_t axis = c.Int(2), index = c.Int(3);
  return c.b.WriteThrough(c.Tensor(0), c.Tensor(1), [&](const Operand& x) { return c.b.Select(x, axis, index); });
}
Result SliceScatter(Call& c) {
  Scalar begin = c.IsNone(3) ? Scalar(0) : c.Number(3), end = c.IsNone(4) ? Scalar(INT64_MAX) : c.Number(4);
  return c.b.WriteThrough(c.Tensor(0), c.Tensor(1),
                          [&](const Operand& x) { return c.b.Slice(x, c.Int(2), begin, end, c.Int(5)); });
}

constexpr RuleKind kPlain = RuleKind::kPlain;

constexpr Rule kRules[] = {
    {"index.Tensor,Tensor_hacked_twin(Tensor self, Tensor?[] indices)", Index, kPlain, kComplexToo},
    {"_unsafe_index.Tensor(Tensor self, Tensor?[] indices)", Index, kPlain, kComplexToo},
    {"index_put.default,hacked_twin(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False)", IndexPut,
     kPlain, kComplexToo},
    {"_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False)", IndexPut, kPlain,
     kComplexToo},
    {"_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False)",
     IndexPut, kPlain, kComplexToo},
    {"_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values)",
     UnsafeMaskedIndexPut},
    {"_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill)", UnsafeMaskedIndex},
    {"index_select(Tensor self, int dim, Tensor index)", IndexSelect, kPlain, kComplexToo},
    {"gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False)", Gather, kPlain, kComplexToo},
    {"take_along_dim(Tensor self, Tensor indices, int? dim=None)", TakeAlongDim, kPlain, kComplexToo},
    {"take(Tensor self, Tensor index)", Take, kPlain, kComplexToo},
    {"embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool "
     "sparse=False)",
     Embedding},
    {"scatter.src(Tensor self, int dim, Tensor index, Any src)", Scatter, kPlain, kComplexToo},
    {"scatter.value(Tensor self, int dim, Tensor index, Any value)", Scatter, kPlain, kComplexToo},
    {"scatter.reduce(Tensor self, int dim, Tensor index, Any src, *, str reduce)", ScatterReduceOld},
    {"scatter.value_reduce(Tensor self, int dim, Tensor index, Any value, *, str reduce)", ScatterReduceOld},
    {"scatter_add(Tensor self, int dim, Tensor index, Tensor src)", ScatterAdd, kPlain, kComplexToo},
    {"scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)",
     ScatterReduce},
    {"index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1)", IndexAdd},
    {"index_copy(Tensor self, int dim, Tensor index, Tensor source)", IndexCopy, kPlain, kComplexToo},
    {"index_fill.int_Scalar,int_Tensor(Tensor self, int dim, Tensor index, Any value)", IndexFill, kPlain, kComplexToo},
    {"index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)",
     IndexReduce},
    {"put(Tensor self, Tensor index, Tensor source, bool accumulate=False)", Put, kPlain, kComplexToo},
    {"masked_select(Tensor self, Tensor mask)", MaskedSelect},
    {"masked_scatter(Tensor self, Tensor mask, Tensor source)", MaskedScatter, kPlain, kComplexToo},
    {"nonzero(Tensor self)", Nonzero},
    {"argwhere(Tensor self)", Nonzero},
    {"nonzero_numpy(Tensor self)", NonzeroNumpy},
    {"where.default(Tensor condition)", NonzeroNumpy},
    {"nonzero_static(Tensor self, *, SymInt size, int fill_value=-1)", NonzeroStatic},
    {"select_scatter(Tensor self, Tensor src, int dim, SymInt index)", SelectScatter, kPlain, kComplexToo},
    {"slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)",
     SliceScatter, kPlain, kComplexToo},
};

}  // namespace

std::span<const Rule> IndexRules() { return kRules; }

}  // namespace ferry::torch

// Order: sort, top-k, medians, unique values, places in sorted sequences, histograms.
#include <cmath>
#include <limits>

#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sorted {
  Operand values, indices;
};
// The first `count` in order; equal ones keep theirs.
Sorted TopOf(Call& c, const Operand& x, const Operand& count, int64_t axis, bool largest, bool sorted) {
  if (x.rank() == 0) return {x, c.b.Int(0)};
  bool direct = c.b.Takes("TopK", x.dtype());
  Operand input = direct ? x : c.b.Cast(x, IsFloating(x.dtype()) ? DType::kFloat : DType::kInt64);
  Operands out = c.b.EmitMany(
      "TopK", {input, count},
      {{"axis", static_cast<int64_t>(x.Axis(axis))}, {"largest", int64_t{largest}}, {"sorted", int64_t{sorted}}}, 2);
  return {c.b.CastLike(out[0], x), out[1]};
}
Sorted SortOf(Call& c, const Operand& x, int64_t axis, bool descending) {
  return x.rank() == 0 ? Sorted{x, c.b.Int(0)} : TopOf(c, x, c.b.SizeOf(x, axis), axis, descending, true);
}
Result TopK(Call& c) {
  Sorted s = TopOf(c, c.Tensor(0), c.b.AsVector(c.Number(1)), c.Int(2), c.Bool(3), c.Bool(4));
  return Operands{s.values, s.indices};
}
Result Sort(Call& c) {
  Sorted s = SortOf(c, c.Tensor(0), c.Int(1), c.Bool(2));
  return Operands{s.values, s.indices};
}
Result SortStable(Call& c) {
  Sorted s = SortOf(c, c.Tensor(0), c.Int(2), c.Bool(3));
  return Operands{s.values, s.indices};
}
Result ArgSort(Call& c) { return SortOf(c, c.Tensor(0), c.Int(1), c.Bool(2)).indices; }
Result ArgSortStable(Call& c) { return SortOf(c, c.Tensor(0), c.Int(2), c.Bool(3)).indices; }
Result MSort(Call& c) { return SortOf(c, c.Tensor(0), 0, false).values; }

Operand Kept(Call& c, const Operand& x, int64_t axis, bool keep) { return keep ? x : c.b.Squeeze(x, {axis}); }
// One place of a sorted axis.
Result PlaceOf(Call& c, const Sorted& s, int64_t axis, int64_t place, bool keep) {
  if (s.values.rank() == 0) return Operands{s.values, s.indices};
  auto pick = [&](const Operand& x) {
    return Kept(c, c.b.Slice(x, axis, Scalar(place), Scalar(place + 1)), axis, keep);
  };
  return Operands{pick(s.values), pick(s.indices)};
}
Result KthValue(Call& c) {
  return PlaceOf(c, SortOf(c, c.Tensor(0), c.Int(2), false), c.Int(2), c.Int(1) - 1, c.Bool(3));
}

// The lower of two middle elements. NaN counts as a median where there is one, unless it is left out.
Sorted MedianOf(Call& c, const Operand& x, int64_t axis, bool keep, bool skip_nan) {
  Builder& b = c.b;
  if (x.rank() == 0) return {x, b.Int(0)};
  bool floats = IsFloating(x.dtype());
  // NaNs go to the end.
  Operand nan = floats ? b.IsNaN(x) : Operand();
  Operand ordered = floats ? b.Where(nan, b.NumberLike(kInfinity, x), x) : x;
  Sorted s = SortOf(c, ordered, axis, false);
  Operand size = b.Unsqueeze(b.AsRank0(b.SizeOf(x, axis)), {0});
  Operand middle;
  if (floats && skip_nan) {
    Operand counted = b.Reduce("ReduceSum", b.Cast(b.Not(nan), DType::kInt64), {axis}, true);
    middle = b.Max(b.Div(b.Sub(counted, b.Int(1)), b.Int(2)), b.Int(0));
  } else {
    Operand place = b.Div(b.Sub(size, b.Ints({1})), b.Ints({2}));
    std::vector<Scalar> sizes = b.Sizes(x);
    sizes[x.Axis(axis)] = Scalar(1);
    middle = b.Expand(place, b.ShapeVector(sizes));
  }
  auto at = static_cast<int64_t>(x.Axis(axis));
  Operand value = b.Emit("GatherElements", {s.values, middle}, {{"axis", at}});
  Operand index = b.Emit("GatherElements", {s.indices, middle}, {{"axis", at}});
  if (floats) {
    Operand any_nan = b.Reduce("ReduceMax", b.Cast(nan, DType::kInt32), {axis}, true);
    Operand all_nan = b.Reduce("ReduceMin", b.Cast(nan, DType::kInt32), {axis}, true);
    Operand is_nan = b.Cast(skip_nan ? all_nan : any_nan, DType::kBool);
    Operand first_nan = b.Emit("ArgMax", {b.Cast(nan, DType::kInt32)}, {{"axis", at}, {"keepdims", int64_t{1}}});
    value = b.Where(is_nan, b.NumberLike(std::nan(""), x), value);
    index = b.Where(is_nan, first_nan, index);
  }
  return {Kept(c, value, axis, keep), Kept(c, index, axis, keep)};
}
bool SkipsNan(Call& c) { return c.op_name() == "nanmedian"; }
Result Median(Call& c) { return MedianOf(c, c.b.Reshape(c.Tensor(0), {-1}), 0, false, SkipsNan(c)).values; }
Result MedianDim(Call& c) {
  Sorted s = MedianOf(c, c.Tensor(0), c.Int(1), c.Bool(2), SkipsNan(c));
  return Operands{s.values, s.indices};
}

// The smallest of the most frequent values, and the last place where it stands.
Result Mode(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  if (x.rank() == 0) return Operands{x, b.Int(0)};
  int64_t axis = c.Int(1);
  Operand rows = b.MoveAxis(x, axis, -1);
  Operand sorted = SortOf(c, rows, -1, false).values;
  Operand same = b.Equal(b.Unsqueeze(sorted, {-1}), b.Unsqueeze(sorted, {-2}));
  Operand counts = b.Reduce("ReduceSum", b.Cast(same, DType::kInt64), {-1}, false);
  Operand best = b.Emit("ArgMax", {counts}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{1}}});
  Operand value = b.Emit("GatherElements", {sorted, best}, {{"axis", int64_t{-1}}});
  Operand index = b.Emit("ArgMax", {b.Cast(b.Equal(rows, value), DType::kInt32)},
                         {{"axis", int64_t{-1}}, {"keepdims", int64_t{1}}, {"select_last_index", int64_t{1}}});
  auto back = [&](const Operand& y) { return c.Bool(2) ? b.MoveAxis(y, -1, axis) : b.Squeeze(y, {-1}); };
  return Operands{back(value), back(index)};
}

// --- unique values

Operands UniqueOf(Call& c, const Operand& x, std::optional<int64_t> axis) {
  Attributes attributes = {{"sorted", int64_t{1}}};
  if (axis) attributes.push_back({"axis", static_cast<int64_t>(x.Axis(*axis))});
  Operand input =
      c.b.Takes("Unique", x.dtype()) ? x : c.b.Cast(x, IsFloating(x.dtype()) ? DType::kFloat : DType::kInt64);
  Operands out = c.b.EmitMany("Unique", {input}, attributes, 4);
  out[0] = c.b.CastLike(out[0], x);
  return out;
}
// A result that was not asked for.
Operand Nothing(Call& c) { return c.b.Constant(Tensor::Zeros(DType::kInt64, {0})); }
Result Unique(Call& c) {
  Operand x = c.Tensor(0);
  Operands out = UniqueOf(c, x, std::nullopt);
  return Operands{out[0], c.Bool(2) ? c.b.Reshape(out[2], c.b.ShapeOf(x)) : Nothing(c),
                  c.Bool(3) ? out[3] : Nothing(c)};
}
Result UniqueDim(Call& c) {
  Operands out = UniqueOf(c, c.Tensor(0), c.Int(1));
  return Operands{out[0], c.Bool(3) ? out[2] : Nothing(c), c.Bool(4) ? out[3] : Nothing(c)};
}
// Runs of equal values: one begins wherever a row differs from the one before.
Result RunsAlong(Call& c, const Scalar* given, bool wants_inverse, bool wants_counts) {
  Builder& b = c.b;
  Operand x = c.Tensor(0), rows = x;
  bool along = given != nullptr;
  int64_t axis = along ? given->AsInt() : 0;
  rows = along ? x : b.Reshape(x, {-1});
  Operand differs =
      b.Not(b.Equal(b.Slice(rows, axis, Scalar(1), Scalar(INT64_MAX)), b.Slice(rows, axis, Scalar(0), Scalar(-1))));
  std::vector<int64_t> others;
  for (size_t i = 0; i < rows.rank(); ++i)
    if (i != rows.Axis(axis)) others.push_back(static_cast<int64_t>(i));
  Operand changes = b.Cast(differs, DType::kInt64);
  if (!others.empty()) changes = b.Reduce("ReduceMax", changes, others, false);
  Operand begins = b.Concat({b.Ints({1}), changes}, 0);
  Operand values =
      b.Emit("Compress", {rows, b.Cast(begins, DType::kBool)}, {{"axis", static_cast<int64_t>(rows.Axis(axis))}});
  Operand run = b.Sub(b.Emit("CumSum", {begins, b.Int(0)}), b.Int(1));
  Operand inverse = along ? run : b.Reshape(run, b.ShapeOf(x));
  Operand places = b.Squeeze(b.Emit("NonZero", {begins}), {0});
  Operand ends = b.Concat({b.Slice(places, 0, Scalar(1), Scalar(INT64_MAX)), b.SizeOf(rows, axis)}, 0);
  return Operands{values, wants_inverse ? inverse : Nothing(c), wants_counts ? b.Sub(ends, places) : Nothing(c)};
}
Result UniqueConsecutive(Call& c) { return RunsAlong(c, c.arg(3).get<Scalar>(), c.Bool(1), c.Bool(2)); }
Result UniqueRowsConsecutive(Call& c) { return RunsAlong(c, c.arg(1).get<Scalar>(), c.Bool(2), c.Bool(3)); }

// --- places in sorted sequences

// How many elements of the sequence lie before each value. Rows of a sequence go with rows of values.
Operand PlacesOf(Call& c, const Operand& sequence, const Operand& values, bool right, bool int32) {
  Operand row = sequence.rank() <= 1 ? sequence : c.b.Unsqueeze(sequence, {-2});
  Operand value = c.b.Unsqueeze(values, {-1});
  DType dtype = ResultType({sequence, values});
  row = c.b.Cast(row, dtype);
  value = c.b.Cast(value, dtype);
  Operand before = right ? c.b.LessOrEqual(row, value) : c.b.Less(row, value);
  Operand count = c.b.Reduce("ReduceSum", c.b.Cast(before, DType::kInt64), {-1}, false);
  // NaN is greater than everything.
  if (IsFloating(dtype)) {
    Operand all = c.b.AsRank0(c.b.SizeOf(sequence, -1));
    count = c.b.Where(c.b.IsNaN(values.dtype() == dtype ? values : c.b.Cast(values, dtype)), all, count);
  }
  return int32 ? c.b.Cast(count, DType::kInt32) : count;
}
Result Bucketize(Call& c) {
  TensorOrNumber value = c.Any(0);
  Operand boundaries = c.Tensor(1);
  return PlacesOf(c, boundaries,
                  std::holds_alternative<Scalar>(value) ? c.As(value, boundaries.dtype()) : std::get<Operand>(value),
                  c.Bool(3), c.Bool(2));
}
Result SearchSorted(Call& c) {
  Operand sequence = c.Tensor(0);
  TensorOrNumber value = c.Any(1);
  bool right = c.Bool(3) || (!c.IsNone(4) && c.Text(4) == "right");
  if (!c.IsNone(5))
    sequence =
        c.b.Emit("GatherElements", {sequence, c.Tensor(5)}, {{"axis", static_cast<int64_t>(sequence.rank()) - 1}});
  return PlacesOf(c, sequence,
                  std::holds_alternative<Scalar>(value) ? c.As(value, sequence.dtype()) : std::get<Operand>(value),
                  right, c.Bool(2));
}
Result IsIn(Call& c) {
  TensorOrNumber a = c.Any(0), b = c.Any(1);
  DType dtype = ResultType({a, b});
  Operand elements = c.As(a, dtype), wanted = c.b.Reshape(c.As(b, dtype), {-1});
  Operand equal = c.b.Equal(c.b.Unsqueeze(elements, {-1}), wanted);
  Operand found = c.b.Cast(c.b.Reduce("ReduceMax", c.b.Cast(equal, DType::kInt32), {-1}, false), DType::kBool);
  // Nothing is in an empty list.
  if (SameDim(wanted.dim(0), Dim(0))) found = c.b.Fill(0, DType::kBool, c.b.ShapeOf(elements));
  return c.Bool(3) ? c.b.Not(found) : found;
}

// --- histograms

Result BinCount(Call& c) {
  Builder& b = c.b;
  Operand x = b.Cast(c.Tensor(0), DType::kInt64), weights = c.MaybeTensor(1);
  // At least minlength bins; the largest element of an empty input is as if it were -1.
  Operand largest = b.Reduce("ReduceMax", b.Concat({x, b.Ints({c.Int(2) - 1})}, 0), {0}, false);
  Operand bins = b.Range(b.Int(0), b.Add(largest, b.Int(1)), b.Int(1));
  Operand hits = b.Equal(b.Unsqueeze(x, {0}), b.Unsqueeze(bins, {1}));
  if (!weights) return b.Reduce("ReduceSum", b.Cast(hits, DType::kInt64), {1}, false);
  Operand wide = weights.dtype() == DType::kFloat ? weights : b.Cast(weights, DType::kDouble);
  return b.Reduce("ReduceSum", b.Where(hits, b.Unsqueeze(wide, {0}), b.NumberLike(0, wide)), {1}, false);
}
// Equal bins between two bounds, the last one with its upper bound; bounds that are equal are those of the data.
Result Histc(Call& c) {
  Builder& b = c.b;
  Operand x = b.Reshape(c.Tensor(0), {-1});
  int64_t bins = c.Int(1);
  Operand low, high;
  if (c.Float(2) == c.Float(3)) {
    low = b.Reduce("ReduceMin", x, {0}, false);
    high = b.Reduce("ReduceMax", x, {0}, false);
    Operand same = b.Equal(low, high);
    Operand lower = b.Where(same, b.Sub(low, 1), low), upper = b.Where(same, b.Add(high, 1), high);
    low = lower;
    high = upper;
  } else {
    low = b.NumberLike(c.Float(2), x);
    high = b.NumberLike(c.Float(3), x);
  }
  DType work = x.dtype() == DType::kDouble ? DType::kDouble : DType::kFloat;
  Operand fx = b.Cast(x, work), from = b.Cast(low, work), to = b.Cast(high, work);
  Operand place = b.Floor(b.Mul(b.Div(b.Sub(fx, from), b.Sub(to, from)), static_cast<double>(bins)));
  Operand bin = b.Cast(b.Min(place, b.NumberLike(static_cast<double>(bins - 1), place)), DType::kInt64);
  Operand inside = b.And(b.GreaterOrEqual(fx, from), b.LessOrEqual(fx, to));
  Operand hits = b.And(b.Equal(b.Unsqueeze(bin, {0}), b.Unsqueeze(b.Range(b.Int(0), b.Int(bins), b.Int(1)), {1})),
                       b.Unsqueeze(inside, {0}));
  return b.CastLike(b.Reduce("ReduceSum", b.Cast(hits, DType::kInt64), {1}, false), x);
}

// torch.export gives the inverse and the counts no type of their own.
constexpr size_t kValuesOnly = 1;

constexpr Rule kRules[] = {
    {"topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True)", TopK},
    {"sort(Tensor self, int dim=-1, bool descending=False)", Sort},
    {"sort.stable(Tensor self, *, bool? stable=None, int dim=-1, bool descending=False)", SortStable},
    {"argsort(Tensor self, int dim=-1, bool descending=False)", ArgSort},
    {"argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False)", ArgSortStable},
    {"msort(Tensor self)", MSort},
    {"kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False)", KthValue},
    {"median(Tensor self)", Median},
    {"median.dim(Tensor self, int dim, bool keepdim=False)", MedianDim},
    {"nanmedian(Tensor self)", Median},
    {"nanmedian.dim(Tensor self, int dim, bool keepdim=False)", MedianDim},
    {"mode(Tensor self, int dim=-1, bool keepdim=False)", Mode},
    {"_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False)", Unique,
     RuleKind::kPlain, !kComplexToo, kValuesOnly},
    {"unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False)",
     UniqueDim, RuleKind::kPlain, !kComplexToo, kValuesOnly},
    {"unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None)",
     UniqueConsecutive, RuleKind::kPlain, !kComplexToo, kValuesOnly},
    {"unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False)",
     UniqueRowsConsecutive, RuleKind::kPlain, !kComplexToo, kValuesOnly},
    {"bucketize.Tensor,Scalar(Any self, Tensor boundaries, *, bool out_int32=False, bool right=False)", Bucketize},
    {"searchsorted.Tensor,Scalar(Tensor sorted_sequence, Any self, *, bool out_int32=False, bool right=False, str? "
     "side=None, "
     "Tensor? sorter=None)",
     SearchSorted},
    {"isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False)", IsIn},
    {"isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False)", IsIn},
    {"isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False)", IsIn},
    {"bincount(Tensor self, Tensor? weights=None, SymInt minlength=0)", BinCount},
    {"histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0)", Histc},
};

}  // namespace

std::span<const Rule> SortingRules() { return kRules; }

}  // namespace ferry::torch

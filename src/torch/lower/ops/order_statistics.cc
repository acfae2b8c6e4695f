// Running extremes and quantiles.
#include <limits>

#include "base/error.h"
#include "torch/lower/families.h"
#include "torch/lower/ops/loops.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

// The last of equal extremes counts; once there is a NaN it stays.
Result RunningExtreme(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  bool largest = c.op_name() == "cummax", is_bool = x.dtype() == DType::kBool;
  if (x.rank() == 0) return Operands{x, b.Int(0)};
  auto axis = static_cast<int64_t>(x.Axis(c.Int(1)));
  Operand rows = b.MoveAxis(is_bool ? b.Cast(x, DType::kInt32) : x, axis, 0);
  std::vector<Scalar> sizes = b.Sizes(rows);
  Operand shape = b.ShapeVector({sizes.begin() + 1, sizes.end()});
  Operand start = b.Fill(0, rows.dtype(), shape);
  // The first row is always taken, whatever the start was.
  auto step = [&](Builder& in, const Operands& states, const Operands& row) {
    const Operand &best = states[0], &at = states[1], &k = states[2], &value = row[0];
    Operand better = largest ? in.GreaterOrEqual(value, best) : in.LessOrEqual(value, best);
    if (IsFloating(value.dtype())) better = in.Or(in.IsNaN(value), in.And(in.Not(in.IsNaN(best)), better));
    better = in.Or(better, in.Equal(k, in.Int(0)));
    Operand next = in.Where(better, value, best), where = in.Where(better, k, at);
    return Operands{next, where, in.Add(k, in.Int(1)), in.Emit("Identity", {next}), in.Emit("Identity", {where})};
  };
  Operands out = ScanAlong(b, {start, b.Fill(0, DType::kInt64, shape), b.Int(0)}, {rows}, step);
  Operand values = b.MoveAxis(out[3], 0, axis), indices = b.MoveAxis(out[4], 0, axis);
  return Operands{is_bool ? b.Cast(values, DType::kBool) : values, indices};
}

// Elements at fractions of the way from the least to the largest, between two of them by the mode of interpolation.
struct Between {
  Operand below, above, share;
};
Operand Interpolated(Call& c, const Between& at, const std::string& mode) {
  Builder& b = c.b;
  if (mode == "lower") return at.below;
  if (mode == "higher") return at.above;
  Operand share = at.share;
  if (mode == "midpoint") share = b.CastLike(b.Mul(b.CastLike(b.Greater(share, 0), share), 0.5), share);
  if (mode != "linear" && mode != "midpoint") c.Unsupported("the interpolation '", Printable(mode), "' is not known");
  // Equal neighbours need no arithmetic, which infinities would not survive.
  Operand mixed = b.Add(at.below, b.Mul(share, b.Sub(at.above, at.below)));
  return b.Where(b.Equal(at.below, at.above), at.below, mixed);
}

Result Quantile(Call& c) {
  Builder& b = c.b;
  bool skips_nan = c.op_name() == "nanquantile";
  Operand x = c.Tensor(0);
  Operand q = c.As(c.Any(1), x.dtype());
  std::string mode = c.Text(4);
  bool keep = c.Bool(3), flat = c.IsNone(2);
  size_t rank = x.rank();
  int64_t axis = flat ? 0 : static_cast<int64_t>(x.Axis(c.Int(2)));
  Operand rows = flat ? b.Reshape(x, {-1}) : b.MoveAxis(x, axis, -1);
  Operand is_nan = b.IsNaN(rows);
  Operand size = b.SizeOf(rows, -1);
  Operand filled = b.Where(is_nan, b.NumberLike(std::numeric_limits<double>::infinity(), rows), rows);
  Operand sorted = b.EmitMany("TopK", {filled, size}, {{"axis", int64_t{-1}}, {"largest", int64_t{0}}}, 2)[0];
  Operand missing = b.Reduce("ReduceSum", b.CastLike(is_nan, x), {-1}, true);
  Operand count = skips_nan ? b.Sub(b.CastLike(size, x), missing) : b.CastLike(size, x);
  Operand fractions = q.rank() == 0 ? b.Unsqueeze(q, {0}) : q;
  Operand place = b.Max(b.Mul(fractions, b.Sub(count, 1)), b.NumberLike(0, x));
  if (mode == "nearest") place = b.Widened("Round", {place});
  // One place for each slice and fraction.
  Operand slices = b.Mul(b.CastLike(missing, x), 0);
  place = b.Add(place, slices);
  auto element = [&](const Operand& at) {
    Operand index = b.Cast(at, DType::kInt64);
    return b.Emit("GatherElements", {sorted, index}, {{"axis", static_cast<int64_t>(rows.rank()) - 1}});
  };
  Operand floor = b.Floor(place);
  Between at{element(floor), element(b.Widened("Ceil", {place})), b.Sub(place, floor)};
  Operand result = Interpolated(c, at, mode == "nearest" ? "lower" : mode);
  Operand undefined = skips_nan ? b.Equal(count, 0) : b.Greater(missing, 0);
  result = b.Where(undefined, b.NumberLike(std::numeric_limits<double>::quiet_NaN(), x), result);
  // [..., fractions] to [fractions, ...]; a single fraction goes.
  result = b.MoveAxis(result, -1, 0);
  if (flat && keep) {
    std::vector<int64_t> ones(rank);
    for (size_t i = 0; i < rank; ++i) ones[i] = static_cast<int64_t>(i) + 1;
    result = b.Unsqueeze(result, ones);
  } else if (keep) {
    result = b.Unsqueeze(result, {axis + 1});
  }
  return q.rank() == 0 ? b.Squeeze(result, {0}) : result;
}

Result OneHot(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  int64_t classes = c.Int(1);
  Operand depth = classes >= 0 ? b.Int(classes) : b.Add(b.Reduce("ReduceMax", x, {}, false), b.Int(1));
  return b.Emit("OneHot", {x, depth, b.Ints({0, 1})}, {{"axis", int64_t{-1}}});
}

// All choices of r elements in their order, as rows.
Result Combinations(Call& c) {
  Operand x = c.Tensor(0);
  int64_t r = c.Int(1);
  bool repeats = c.Bool(2);
  if (!x.dim(0).known()) c.Unsupported("the number of elements is not known");
  int64_t n = *x.dim(0).value;
  Require(r >= 1 && r <= 16 && n <= 4096, "combinations of ", r, " out of ", n, " have no export");
  std::vector<int64_t> chosen(static_cast<size_t>(r)), rows;
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = repeats ? 0 : static_cast<int64_t>(i);
  bool possible = n > 0 && (repeats || r <= n);
  while (possible) {
    rows.insert(rows.end(), chosen.begin(), chosen.end());
    Require(rows.size() <= (size_t{1} << 24), "there are too many combinations");
    // The last place that can still move on does, and those behind it start over.
    size_t place = chosen.size();
    auto limit = [&](size_t i) { return repeats ? n - 1 : n - r + static_cast<int64_t>(i); };
    while (place > 0 && chosen[place - 1] == limit(place - 1)) --place;
    if (place == 0) break;
    int64_t next = ++chosen[place - 1];
    for (size_t i = place; i < chosen.size(); ++i) chosen[i] = repeats ? next : ++next;
  }
  auto count = static_cast<int64_t>(rows.size()) / r;
  return c.b.Gather(x, c.b.Constant(Tensor::FromVector<int64_t>(rows, {count, r})), 0);
}
// Every element of each vector with every one of the others, the last one fastest.
Result CartesianProduct(Call& c) {
  Builder& b = c.b;
  Operands vectors = c.Tensors(0);
  if (vectors.size() == 1) return vectors[0];
  Operands columns;
  std::vector<Scalar> shape;
  for (const Operand& vector : vectors) shape.push_back(b.SizeScalar(vector, 0));
  Operand full = b.ShapeVector(shape);
  for (size_t i = 0; i < vectors.size(); ++i) {
    std::vector<int64_t> axes;
    for (size_t j = 0; j < vectors.size(); ++j)
      if (j != i) axes.push_back(static_cast<int64_t>(j));
    columns.push_back(b.Reshape(b.Expand(b.Unsqueeze(vectors[i], axes), full), {-1, 1}));
  }
  return b.Concat(columns, 1);
}
// Sums away what broadcasting to this shape would have added.
Result SumToSize(Call& c) {
  Operand x = c.Tensor(0);
  std::vector<int64_t> size = c.Ints(1), leading, ones;
  Require(size.size() <= x.rank(), "a tensor of ", x.rank(), " dimensions has no sum of ", size.size());
  size_t added = x.rank() - size.size();
  for (size_t axis = 0; axis < x.rank(); ++axis) {
    auto at = static_cast<int64_t>(axis);
    if (axis < added)
      leading.push_back(at);
    else if (size[axis - added] == 1 && !SameDim(x.dim(at), Dim(1)))
      ones.push_back(at);
  }
  if (!ones.empty()) x = c.b.Reduce("ReduceSum", x, ones, true);
  return leading.empty() ? x : c.b.Reduce("ReduceSum", x, leading, false);
}

constexpr Rule kRules[] = {
    {"combinations(Tensor self, int r=2, bool with_replacement=False)", Combinations},
    {"cartesian_prod(Tensor[] tensors)", CartesianProduct},
    {"sum_to_size(Tensor self, SymInt[] size)", SumToSize},
    {"cummax(Tensor self, int dim)", RunningExtreme},
    {"cummin(Tensor self, int dim)", RunningExtreme},
    {"quantile.default,scalar(Tensor self, Any q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\")",
     Quantile},
    {"nanquantile.default,scalar(Tensor self, Any q, int? dim=None, bool keepdim=False, *, "
     "str interpolation=\"linear\")",
     Quantile},
    {"one_hot(Tensor self, int num_classes=-1)", OneHot},
};

}  // namespace

std::span<const Rule> OrderStatisticRules() { return kRules; }

}  // namespace ferry::torch

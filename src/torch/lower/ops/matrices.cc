#include "torch/lower/ops/matrices.h"

#include <algorithm>

#include "base/error.h"
#include "torch/lower/ops/loops.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

int64_t KnownSize(const Operand& matrices, int64_t axis) {
  Dim size = matrices.dim(axis);
  if (!size.known()) Fail(ErrorCode::kUnsupported, "the sizes of the matrices must be known");
  return *size.value;
}

Operand Counting(Builder& b, int64_t count) { return b.Range(b.Int(0), b.Int(count), b.Int(1)); }

// Rows k and p[batch] change places.
Operand SwapRows(Builder& b, const Operand& rows, const Operand& order, const Operand& k, const Operand& p) {
  Operand other = b.Unsqueeze(p, {-1});
  Operand source = b.Where(b.Equal(order, k), other, b.Where(b.Equal(order, other), k, order));
  Operand index = b.Expand(b.Unsqueeze(source, {-1}), b.ShapeOf(rows));
  return b.Emit("GatherElements", {rows, index}, {{"axis", static_cast<int64_t>(rows.rank()) - 2}});
}

}  // namespace

Operand IdentityLike(Builder& b, const Operand& matrices) {
  int64_t n = KnownSize(matrices, -2);
  Operand counting = Counting(b, n);
  Operand identity = b.Cast(b.Equal(b.Unsqueeze(counting, {1}), counting), matrices.dtype());
  std::vector<Scalar> sizes = b.Sizes(matrices);
  sizes.back() = sizes[sizes.size() - 2];
  return b.Expand(identity, b.ShapeVector(sizes));
}

Operand Adjoint(Builder& b, const Operand& matrices) {
  Operand turned = b.SwapAxes(matrices, -1, -2);
  return turned.is_complex() ? b.MakeComplex(b.Real(turned), b.Neg(b.Imaginary(turned))) : turned;
}

Operand Triangle(Builder& b, const Operand& x, bool upper, int64_t diagonal) {
  Attributes attributes;
  if (!upper) attributes.push_back({"upper", int64_t{0}});
  return b.Emit("Trilu", {x, b.Int(diagonal)}, attributes);
}
Operand UnitDiagonal(Builder& b, const Operand& strict) { return b.Add(strict, IdentityLike(b, strict)); }

Operand SymmetricOf(Builder& b, const Operand& x, bool upper) {
  return b.Add(Triangle(b, x, upper), b.SwapAxes(Triangle(b, x, upper, upper ? 1 : -1), -1, -2));
}

Operand SolveOf(Builder& b, const Operand& a, const Operand& rhs) {
  int64_t n = KnownSize(a, -1);
  if (n == 0) return rhs;
  Operand order = Counting(b, n);
  auto step = [&](Builder& in, const Operand& k, const Operands& before) {
    Operand column = in.Gather(before[0], k, -1);
    Operand candidates = in.Where(in.Less(order, k), in.NumberLike(-1, column), in.Abs(column));
    Operand best = in.Emit("ArgMax", {candidates}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}});
    Operand rows = SwapRows(in, before[0], order, k, best);
    Operand pivot_row = in.Gather(rows, k, -2);
    pivot_row = in.Div(pivot_row, in.Unsqueeze(in.Gather(pivot_row, k, -1), {-1}));
    Operand factors = in.Unsqueeze(in.Gather(rows, k, -1), {-1}), pivot = in.Unsqueeze(pivot_row, {-2});
    Operand is_pivot = in.Unsqueeze(in.Equal(order, k), {-1});
    return Operands{in.Where(is_pivot, pivot, in.Sub(rows, in.Mul(factors, pivot)))};
  };
  Operand solved = Repeat(b, b.Int(n), {b.Concat({a, rhs}, -1)}, step)[0];
  return b.Slice(solved, -1, Scalar(n), Scalar(INT64_MAX));
}

Operand InverseOf(Builder& b, const Operand& a) { return SolveOf(b, a, IdentityLike(b, a)); }

Operand CholeskyOf(Builder& b, const Operand& a) {
  int64_t n = KnownSize(a, -1);
  if (n == 0) return a;
  Operand order = Counting(b, n);
  auto step = [&](Builder& in, const Operand& k, const Operands& before) {
    Operand column = in.Gather(before[0], k, -1);
    Operand root = in.Sqrt(in.Unsqueeze(in.Gather(column, k, -1), {-1}));
    Operand below = in.Where(in.Less(order, k), in.NumberLike(0, column), in.Div(column, root));
    Operand tall = in.Unsqueeze(below, {-1}), wide = in.Unsqueeze(below, {-2});
    Operand placed = in.Where(in.Equal(order, k), tall, before[1]);
    return Operands{in.Sub(before[0], in.Mul(tall, wide)), placed};
  };
  return Repeat(b, b.Int(n), {a, b.Fill(0, a.dtype(), b.ShapeOf(a))}, step)[1];
}

Operand ApplyReflectors(Builder& b, const Operand& reflectors, const Operand& tau, const Operand& to, bool transposed) {
  int64_t count = KnownSize(tau, -1);
  if (count == 0) return to;
  Operand order = Counting(b, KnownSize(reflectors, -2));
  auto step = [&](Builder& in, const Operand& iteration, const Operands& before) {
    // The product is applied from its right end, its transpose from its left.
    Operand i = transposed ? iteration : in.Sub(in.Int(count - 1), iteration);
    Operand column = in.Gather(reflectors, i, -1);
    Operand v = in.Where(in.Less(order, i), in.NumberLike(0, column), column);
    v = in.Unsqueeze(in.Where(in.Equal(order, i), in.NumberLike(1, column), v), {-1});
    Operand scale = in.Unsqueeze(in.Gather(tau, i, -1), {-1, -2});
    Operand share = in.MatMul(in.SwapAxes(v, -1, -2), before[0]);
    return Operands{in.Sub(before[0], in.Mul(scale, in.Mul(v, share)))};
  };
  return Repeat(b, b.Int(count), {to}, step)[0];
}

Reflected ReflectorsOf(Builder& b, const Operand& a) {
  int64_t rows = KnownSize(a, -2), columns = KnownSize(a, -1), count = std::min(rows, columns);
  if (count == 0) Fail(ErrorCode::kUnsupported, "an empty matrix has no export here");
  Operand down = Counting(b, rows), across = Counting(b, columns), counting = Counting(b, count);
  auto step = [&](Builder& in, const Operand& k, const Operands& before) {
    Operand column = in.Gather(before[0], k, -1), zero = in.NumberLike(0, column);
    Operand alpha = in.Unsqueeze(in.Gather(column, k, -1), {-1});  // [..., 1]
    Operand below = in.Where(in.Greater(down, k), column, zero);
    Operand rest = in.Reduce("ReduceL2", below, {-1}, true);
    Operand is_done = in.Equal(rest, 0);  // nothing to reflect
    Operand length = in.Sqrt(in.Add(in.Mul(alpha, alpha), in.Mul(rest, rest)));
    Operand beta = in.Where(in.Less(alpha, 0), length, in.Neg(length));
    Operand factor =
        in.Where(is_done, zero, in.Div(in.Sub(beta, alpha), in.Where(is_done, in.NumberLike(1, beta), beta)));
    Operand scale = in.Where(is_done, in.NumberLike(1, alpha), in.Sub(alpha, beta));
    Operand stored = in.Div(below, scale), v = in.Where(in.Equal(down, k), in.NumberLike(1, column), stored);
    Operand tall = in.Unsqueeze(v, {-1});
    Operand share = in.Mul(in.Unsqueeze(factor, {-1}), in.MatMul(in.SwapAxes(tall, -1, -2), before[0]));
    Operand reflected = in.Sub(before[0], in.Mul(tall, share));
    // Columns to the left are finished; this one keeps its reflector below the diagonal.
    Operand own = in.Unsqueeze(in.Where(in.Greater(down, k), stored, in.Gather(reflected, k, -1)), {-1});
    Operand next = in.Where(in.Less(across, k), before[0], in.Where(in.Equal(across, k), own, reflected));
    return Operands{next, in.Where(in.Equal(counting, k), factor, before[1])};
  };
  std::vector<Scalar> sizes = b.Sizes(a);
  sizes.pop_back();
  sizes.back() = Scalar(count);
  Operands done = Repeat(b, b.Int(count), {a, b.Fill(0, a.dtype(), b.ShapeVector(sizes))}, step);
  return {done[0], done[1]};
}

Eliminated EliminationOf(Builder& b, const Operand& a) {
  int64_t rows = KnownSize(a, -2), columns = KnownSize(a, -1), count = std::min(rows, columns);
  if (count == 0) Fail(ErrorCode::kUnsupported, "an empty matrix has no export here");
  Operand down = Counting(b, rows), across = Counting(b, columns), counting = Counting(b, count);
  auto step = [&](Builder& in, const Operand& k, const Operands& before) {
    Operand column = in.Gather(before[0], k, -1);
    Operand candidates = in.Where(in.Less(down, k), in.NumberLike(-1, column), in.Abs(column));
    Operand best = in.Emit("ArgMax", {candidates}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}});
    Operand swapped = SwapRows(in, before[0], down, k, best);
    Operand pivot_row = in.Gather(swapped, k, -2), pivot = in.Unsqueeze(in.Gather(pivot_row, k, -1), {-1});
    Operand is_zero = in.Equal(pivot, 0);
    Operand factors = in.Div(in.Gather(swapped, k, -1), in.Where(is_zero, in.NumberLike(1, pivot), pivot));
    factors = in.Unsqueeze(in.Where(in.Greater(down, k), factors, in.NumberLike(0, factors)), {-1});
    Operand right = in.Where(in.Greater(across, k), pivot_row, in.NumberLike(0, pivot_row));
    Operand next = in.Sub(swapped, in.Mul(factors, in.Unsqueeze(right, {-2})));
    Operand is_factor = in.And(in.Equal(across, k), in.Unsqueeze(in.Greater(down, k), {-1}));
    Operand exchanged = in.Cast(in.Unsqueeze(in.Add(best, in.Int(1)), {-1}), DType::kInt32);
    return Operands{in.Where(is_factor, factors, next), in.Where(in.Equal(counting, k), exchanged, before[1])};
  };
  std::vector<Scalar> sizes = b.Sizes(a);
  sizes.pop_back();
  sizes.back() = Scalar(count);
  Operands done = Repeat(b, b.Int(count), {a, b.Fill(0, DType::kInt32, b.ShapeVector(sizes))}, step);
  return {done[0], done[1]};
}

Operand PermutationOf(Builder& b, const Operand& pivots, int64_t rows) {
  std::vector<Scalar> sizes = b.Sizes(pivots);
  sizes.back() = Scalar(rows);
  Operand order = b.Range(b.Int(0), b.Int(rows), b.Int(1));
  Operand targets = b.Sub(b.Cast(pivots, DType::kInt64), b.Int(1));
  auto step = [&](Builder& in, const Operand& k, const Operands& before) {
    Operand other = in.Unsqueeze(in.Gather(targets, k, -1), {-1});
    Operand source = in.Where(in.Equal(order, k), other, in.Where(in.Equal(order, other), k, order));
    return Operands{in.Emit("GatherElements", {before[0], source}, {{"axis", static_cast<int64_t>(sizes.size()) - 1}})};
  };
  Dim count = pivots.dim(-1);
  if (!count.known()) Fail(ErrorCode::kUnsupported, "the number of pivots must be known");
  return Repeat(b, b.Int(*count.value), {b.Expand(order, b.ShapeVector(sizes))}, step)[0];
}
// Columns of the left half of the first matrix are made orthogonal to those of its right half, pair by pair and all
// pairs at once; the other matrices are turned along.
static Operands TurnPairs(Builder& b, const Operands& matrices, int64_t half) {
  auto side = [&](const Operand& m, int64_t begin) { return b.Slice(m, -1, Scalar(begin), Scalar(begin + half)); };
  auto dot = [&](const Operand& x, const Operand& y) { return b.Reduce("ReduceSum", b.Mul(x, y), {-2}, true); };
  Operand x = side(matrices[0], 0), y = side(matrices[0], half);
  Operand mixed = dot(x, y), difference = b.Sub(dot(y, y), dot(x, x));
  Operand is_apart = b.Equal(mixed, 0), one = b.NumberLike(1, mixed);
  Operand zeta = b.Div(difference, b.Mul(b.Where(is_apart, one, mixed), 2));
  Operand root = b.Sqrt(b.Add(b.Mul(zeta, zeta), 1));
  Operand sign = b.Where(b.Less(zeta, 0), b.NumberLike(-1, zeta), one);
  Operand tangent = b.Where(is_apart, b.NumberLike(0, zeta), b.Div(sign, b.Add(b.Abs(zeta), root)));
  Operand cosine = b.Reciprocal(b.Sqrt(b.Add(b.Mul(tangent, tangent), 1))), sine = b.Mul(cosine, tangent);
  Operands turned;
  for (const Operand& m : matrices) {
    Operand p = side(m, 0), q = side(m, half);
    turned.push_back(b.Concat({b.Sub(b.Mul(cosine, p), b.Mul(sine, q)), b.Add(b.Mul(sine, p), b.Mul(cosine, q))}, -1));
  }
  return turned;
}

// The circle method: 0 1 2 over 3 4 5 becomes 0 3 1 over 4 5 2. All columns but the first move on by one place, so that
// after as many rounds less one as there are columns each has met every other.
static std::vector<int64_t> NextRound(int64_t half) {
  std::vector<int64_t> moved;
  for (int64_t i = 0; i < half; ++i) moved.push_back(i == 0 ? 0 : i == 1 ? half : i - 1);
  for (int64_t i = 0; i < half; ++i) moved.push_back(i + 1 < half ? half + i + 1 : half - 1);
  return moved;
}

// Jacobi's rotations from one side: the lengths of columns that are all orthogonal are the singular values.
Singular SingularOf(Builder& b, const Operand& a) {
  constexpr int64_t kSweeps = 12;
  bool is_wide = KnownSize(a, -2) < KnownSize(a, -1);
  Operand tall = is_wide ? b.SwapAxes(a, -1, -2) : a;
  int64_t columns = KnownSize(tall, -1), even = columns + columns % 2, half = even / 2;
  if (columns == 0) Fail(ErrorCode::kUnsupported, "singular values of empty matrices have no export");
  RequireFewPositions(static_cast<double>(columns));
  auto pad = [&](const Operand& m) {
    std::vector<int64_t> pads(2 * m.rank());
    pads.back() = 1;
    return even == columns ? m : b.Emit("Pad", {m, b.Ints(pads)});
  };
  auto round = [&](Builder& in, const Operand&, const Operands& before) {
    Operands turned = TurnPairs(in, before, half);
    if (half > 1)
      for (Operand& m : turned) m = in.Gather(m, in.Ints(NextRound(half)), -1);
    return turned;
  };
  Operand right = IdentityLike(b, b.SwapAxes(tall, -1, -2));
  Operands done = Repeat(b, b.Int(kSweeps * (even - 1)), {pad(tall), pad(right)}, round);
  Operand lengths = b.Reduce("ReduceL2", done[0], {-2}, false);
  Operands top = b.EmitMany("TopK", {lengths, b.Ints({columns})}, {{"axis", int64_t{-1}}}, 2);
  auto sorted = [&](const Operand& m) {
    std::vector<Scalar> sizes = b.Sizes(m);
    sizes.back() = Scalar(columns);
    Operand index = b.Expand(b.Unsqueeze(top[1], {-2}), b.ShapeVector(sizes));
    return b.Emit("GatherElements", {m, index}, {{"axis", static_cast<int64_t>(m.rank()) - 1}});
  };
  Operand scale = b.Unsqueeze(b.Where(b.Equal(top[0], 0), b.NumberLike(1, top[0]), top[0]), {-2});
  Operand left = b.Div(sorted(done[0]), scale), other = sorted(done[1]);
  return is_wide ? Singular{other, top[0], left} : Singular{left, top[0], other};
}

}  // namespace ferry::torch

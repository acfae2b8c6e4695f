// Linear algebra: what has one answer. Decompositions whose signs are a matter of taste (svd, eigh) are left out.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "torch/lower/families.h"
#include "torch/lower/ops/loops.h"
#include "torch/lower/ops/matrices.h"
#include "torch/lower/ops/support.h"

namespace ferry::torch {
namespace {

Operand Wide(Builder& b, const Operand& x) { return b.Cast(x, DType::kDouble); }
Operand NoInfo(Builder& b, const Operand& matrices) {
  std::vector<Scalar> sizes = b.Sizes(matrices);
  sizes.resize(sizes.size() - 2);
  return b.Fill(0, DType::kInt32, b.ShapeVector(sizes));
}
// Leading axes of both made the same, for what concatenates them.
std::pair<Operand, Operand> SameBatch(Builder& b, const Operand& x, const Operand& y) {
  if (x.rank() == 2 && y.rank() == 2) return {x, y};
  Operand zero = b.Mul(b.Reduce("ReduceSum", x, {-1, -2}, true), 0),
          other = b.Mul(b.Reduce("ReduceSum", y, {-1, -2}, true), 0);
  Operand batch = b.Add(zero, other);
  auto spread = [&](const Operand& m) {
    std::vector<Scalar> sizes = b.Sizes(batch), own = b.Sizes(m);
    sizes[sizes.size() - 2] = own[own.size() - 2];
    sizes.back() = own.back();
    return b.Expand(m, b.ShapeVector(sizes));
  };
  return {spread(x), spread(y)};
}

// --- determinants and powers

Result Det(Call& c) { return c.b.Emit("Det", {c.Tensor(0)}); }
Result LogDet(Call& c) { return c.b.Log(c.b.Emit("Det", {c.Tensor(0)})); }
Result SlogDet(Call& c) {
  Operand det = c.b.Emit("Det", {c.Tensor(0)});
  return Operands{c.b.Emit("Sign", {det}), c.b.Log(c.b.Abs(det))};
}
Result MatrixPower(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0), result;
  int64_t n = c.Int(1);
  Require(n > -1024 && n < 1024, "the power ", n, " of a matrix has no export");
  if (n == 0) return IdentityLike(b, x);
  Operand base = n < 0 ? b.CastLike(InverseOf(b, Wide(b, x)), x) : x;
  for (int64_t rest = std::abs(n); rest > 0; rest /= 2) {
    if (rest % 2) result = result ? b.MatMul(result, base) : base;
    if (rest > 1) base = b.MatMul(base, base);
  }
  return result;
}
// Taylor's series of a matrix made small by halving, squared as often as it was halved.
Result MatrixExp(Call& c) {
  Builder& b = c.b;
  constexpr int kTerms = 18;
  Operand given = c.Tensor(0);
  if (given.dtype() != DType::kDouble)
    c.Unsupported("in ", given.dtype(), " its result depends on how PyTorch rounds on the way; capture it in double");
  if (given.static_shape() && given.static_shape()->ElementCount() == 0) return given;
  Operand x = Wide(b, given);
  Operand norm = b.Reduce("ReduceMax", b.Reduce("ReduceSum", b.Abs(x), {-2}, false), {}, false);
  Operand halvings = b.Widened("Ceil", {b.Div(b.Log(b.Max(norm, b.NumberLike(1, norm))), std::log(2.0))});
  Operand small = b.Div(x, b.Pow(b.NumberLike(2, halvings), halvings));
  Operand identity = IdentityLike(b, x), sum = identity;
  for (int k = kTerms; k >= 1; --k) sum = b.Add(identity, b.Div(b.MatMul(small, sum), k));
  auto square = [](Builder& in, const Operand&, const Operands& before) {
    return Operands{in.MatMul(before[0], before[0])};
  };
  return b.CastLike(Repeat(b, b.Cast(halvings, DType::kInt64), {sum}, square)[0], given);
}

// --- equations

Operand SolveCast(Call& c, const Operand& a, const Operand& rhs, bool left) {
  Builder& b = c.b;
  Operand wide_a = Wide(b, a), wide_rhs = Wide(b, rhs);
  if (!left) wide_a = b.SwapAxes(wide_a, -1, -2), wide_rhs = b.SwapAxes(wide_rhs, -1, -2);
  auto [matrix, right_side] = SameBatch(b, wide_a, wide_rhs);
  Operand x = SolveOf(b, matrix, right_side);
  return b.CastLike(left ? x : b.SwapAxes(x, -1, -2), rhs);
}
Operand SolveLeft(Call& c, const Operand& a, const Operand& rhs, bool left) {
  bool vector = rhs.rank() == 1;
  if (!vector && rhs.rank() + 1 == a.rank()) {
    vector = true;
    for (size_t axis = 0; axis < rhs.rank(); ++axis)
      vector = vector && SameDim(rhs.dim(static_cast<int64_t>(axis)), a.dim(static_cast<int64_t>(axis)));
  }
  if (!vector) return SolveCast(c, a, rhs, left);
  return c.b.Squeeze(SolveCast(c, a, c.b.Unsqueeze(rhs, {-1}), true), {-1});
}
Result Solve(Call& c) { return SolveLeft(c, c.Tensor(0), c.Tensor(1), c.Bool(2)); }
Result SolveEx(Call& c) {
  return Operands{SolveLeft(c, c.Tensor(0), c.Tensor(1), c.Bool(2)), NoInfo(c.b, c.Tensor(0))};
}
Result Inverse(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.CastLike(InverseOf(c.b, Wide(c.b, x)), x);
}
Result InverseEx(Call& c) {
  Operand x = c.Tensor(0);
  return Operands{c.b.CastLike(InverseOf(c.b, Wide(c.b, x)), x), NoInfo(c.b, x)};
}
Operand SolveTriangularOf(Call& c, const Operand& a, const Operand& rhs, bool upper, bool left, bool unit) {
  Operand triangle = Triangle(c.b, a, upper, !unit ? 0 : upper ? 1 : -1);
  return SolveCast(c, unit ? UnitDiagonal(c.b, triangle) : triangle, rhs, left);
}
Result SolveTriangular(Call& c) {
  return SolveTriangularOf(c, c.Tensor(0), c.Tensor(1), c.Bool(2), c.Bool(3), c.Bool(4));
}
// triangular_solve(b, A, upper, transpose, unitriangular) also gives A back.
Result TriangularSolve(Call& c) {
  Operand a = c.Tensor(1);
  bool upper = c.Bool(2);
  Operand triangle = Triangle(c.b, a, upper, !c.Bool(4) ? 0 : upper ? 1 : -1);
  if (c.Bool(4)) triangle = UnitDiagonal(c.b, triangle);
  if (c.Bool(3)) triangle = c.b.SwapAxes(triangle, -1, -2);
  return Operands{SolveCast(c, triangle, c.Tensor(0), true), a};
}

// Tensors as matrices: the first `rows` axes against the rest.
int64_t KnownProduct(Call& c, const Operand& x, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t axis = begin; axis < end; ++axis) {
    Dim size = x.dim(static_cast<int64_t>(axis));
    if (!size.known()) c.Unsupported("the sizes of the tensor must be known");
    product *= *size.value;
  }
  return product;
}
Result TensorInverse(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  auto rows = static_cast<size_t>(c.Int(1));
  Require(rows <= x.rank(), "there are no ", rows, " axes");
  std::vector<Scalar> sizes = b.Sizes(x), turned(sizes.begin() + static_cast<ptrdiff_t>(rows), sizes.end());
  turned.insert(turned.end(), sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(rows));
  int64_t count = KnownProduct(c, x, 0, rows);
  Operand matrix = b.Reshape(x, {count, KnownProduct(c, x, rows, x.rank())});
  return b.View(b.CastLike(InverseOf(b, Wide(b, matrix)), x), turned);
}
Result TensorSolve(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0), rhs = c.Tensor(1);
  if (!c.IsNone(2) && !c.Ints(2).empty()) {
    // The axes named go to the end, in their order.
    std::vector<int64_t> last = c.Ints(2), order;
    for (int64_t& axis : last) axis = static_cast<int64_t>(x.Axis(axis));
    for (size_t axis = 0; axis < x.rank(); ++axis)
      if (std::find(last.begin(), last.end(), static_cast<int64_t>(axis)) == last.end())
        order.push_back(static_cast<int64_t>(axis));
    order.insert(order.end(), last.begin(), last.end());
    x = b.Transpose(x, order);
  }
  Require(rhs.rank() <= x.rank(), "the right-hand side has more axes than the tensor");
  std::vector<Scalar> sizes = b.Sizes(x);
  int64_t count = KnownProduct(c, rhs, 0, rhs.rank());
  Operand matrix = b.Reshape(x, {count, KnownProduct(c, x, rhs.rank(), x.rank())});
  Operand solved = SolveCast(c, matrix, b.Reshape(rhs, {count, 1}), true);
  return b.View(solved, {sizes.begin() + static_cast<ptrdiff_t>(rhs.rank()), sizes.end()});
}

// --- Cholesky

Operand FactorOf(Call& c, bool upper) {
  Operand x = c.Tensor(0), wide = Wide(c.b, x);
  // With upper only the upper triangle is meant: it is the lower one of the transposed.
  Operand factor = c.b.CastLike(CholeskyOf(c.b, upper ? c.b.SwapAxes(wide, -1, -2) : wide), x);
  return upper ? c.b.SwapAxes(factor, -1, -2) : factor;
}
Result Cholesky(Call& c) { return FactorOf(c, c.Bool(1)); }
Result CholeskyEx(Call& c) { return Operands{FactorOf(c, c.Bool(1)), NoInfo(c.b, c.Tensor(0))}; }
// L L' from its factor, of which only one triangle counts.
Operand Multiplied(Builder& b, const Operand& factor, bool upper) {
  Operand triangle = Triangle(b, Wide(b, factor), upper), turned = b.SwapAxes(triangle, -1, -2);
  return upper ? b.MatMul(turned, triangle) : b.MatMul(triangle, turned);
}
Result CholeskySolve(Call& c) { return SolveCast(c, Multiplied(c.b, c.Tensor(1), c.Bool(2)), c.Tensor(0), true); }
Result CholeskyInverse(Call& c) {
  Operand factor = c.Tensor(0);
  return c.b.CastLike(InverseOf(c.b, Multiplied(c.b, factor, c.Bool(1))), factor);
}

// --- factors given

Operand TakeRows(Builder& b, const Operand& rows, const Operand& permutation) {
  std::vector<Scalar> sizes = b.Sizes(permutation);
  sizes.push_back(b.SizeScalar(rows, -1));
  Operand index = b.Expand(b.Unsqueeze(permutation, {-1}), b.ShapeVector(sizes));
  return b.Emit("GatherElements", {rows, index}, {{"axis", static_cast<int64_t>(rows.rank()) - 2}});
}
Operand InversePermutation(Builder& b, const Operand& permutation) {
  Operand size = b.SizeOf(permutation, -1);
  return b.EmitMany("TopK", {permutation, size}, {{"axis", int64_t{-1}}, {"largest", int64_t{0}}}, 2)[1];
}
// A = P L U. Adjoint and right-hand forms are solved through the transposed product.
Operand LuSolveOf(Call& c, const Operand& lu, const Operand& pivots, const Operand& rhs, bool left, bool adjoint) {
  Builder& b = c.b;
  Operand wide = Wide(b, lu);
  Operand product = b.MatMul(UnitDiagonal(b, Triangle(b, wide, false, -1)), Triangle(b, wide, true));
  Operand right_side = left ? Wide(b, rhs) : b.SwapAxes(Wide(b, rhs), -1, -2);
  if (!lu.dim(-1).known() || lu.rank() != rhs.rank()) c.Unsupported("its batches must be the same and its sizes known");
  Operand permutation = PermutationOf(b, pivots, *lu.dim(-1).value), x;
  if (adjoint != left) {
    x = SolveOf(b, product, TakeRows(b, right_side, permutation));
  } else {
    x = SolveOf(b, b.SwapAxes(product, -1, -2), right_side);
    x = TakeRows(b, x, InversePermutation(b, permutation));
  }
  return b.CastLike(left ? x : b.SwapAxes(x, -1, -2), rhs);
}
Result LinalgLuSolve(Call& c) { return LuSolveOf(c, c.Tensor(0), c.Tensor(1), c.Tensor(2), c.Bool(3), c.Bool(4)); }
Result LuSolve(Call& c) { return LuSolveOf(c, c.Tensor(1), c.Tensor(2), c.Tensor(0), true, false); }

Result HouseholderProduct(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0), wide = Wide(b, x);
  Operand start = b.Slice(IdentityLike(b, wide), -1, Scalar(0), b.SizeScalar(x, -1));
  return b.CastLike(ApplyReflectors(b, wide, Wide(b, c.Tensor(1)), start, false), x);
}
Result Ormqr(Call& c) {
  Builder& b = c.b;
  Operand x = Wide(b, c.Tensor(0)), tau = Wide(b, c.Tensor(1)), other = c.Tensor(2), wide = Wide(b, other);
  bool left = c.Bool(3), transposed = c.Bool(4);
  // (B Q)' = Q' B'
  Operand to = left ? wide : b.SwapAxes(wide, -1, -2);
  Operand product = ApplyReflectors(b, x, tau, to, left ? transposed : !transposed);
  return b.CastLike(left ? product : b.SwapAxes(product, -1, -2), other);
}

// --- singular values

Result SingularValues(Call& c) {
  Operand x = c.Tensor(0);
  return c.b.CastLike(SingularOf(c.b, Wide(c.b, x)).values, x);
}
// A symmetric matrix plus a multiple of the identity has no negative eigenvalue: they are its singular values then.
Result EigenvaluesOfSymmetric(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0), symmetric = SymmetricOf(b, Wide(b, x), c.Text(1) == "U");
  Operand norm = b.Reduce("ReduceL2", symmetric, {-1, -2}, true);
  Operand values =
      b.Sub(SingularOf(b, b.Add(symmetric, b.Mul(IdentityLike(b, symmetric), norm))).values, b.Squeeze(norm, {-1}));
  Operand rising = b.Emit("Slice", {values, b.Ints({-1}), b.Ints({INT64_MIN}), b.Ints({-1}), b.Ints({-1})});
  return b.CastLike(rising, x);
}
double Epsilon(DType dtype) {
  return dtype == DType::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}
// max(atol, rtol · σ1), by singular value. rtol is max(m, n) · ε when neither is given.
Operand Threshold(Call& c, const Operand& x, const Operand& values, size_t atol, size_t rtol) {
  Builder& b = c.b;
  Operand largest = b.Slice(values, -1, Scalar(0), Scalar(1));
  Operand absolute = c.IsNone(atol) ? b.NumberLike(0, values) : c.As(c.Any(atol), DType::kDouble), relative;
  if (!c.IsNone(rtol)) {
    relative = c.As(c.Any(rtol), DType::kDouble);
  } else {
    Dim rows = x.dim(-2), columns = x.dim(-1);
    if (!rows.known() || !columns.known()) c.Unsupported("the sizes of the matrices must be known");
    auto size = static_cast<double>(std::max(*rows.value, *columns.value));
    relative = b.NumberLike(size * Epsilon(x.dtype()), values);
    if (!c.IsNone(atol)) {
      // A given atol above 0 stands alone.
      Operand given = b.Greater(absolute, 0);
      relative = b.Where(given, b.NumberLike(0, values), relative);
    }
  }
  if (absolute.rank() > 0) absolute = b.Unsqueeze(absolute, {-1});
  if (relative.rank() > 0) relative = b.Unsqueeze(relative, {-1});
  return b.Max(absolute, b.Mul(relative, largest));
}
Operand PseudoInverse(Call& c, size_t atol, size_t rtol, bool hermitian) {
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  if (x.static_shape() && x.static_shape()->ElementCount() == 0) return b.SwapAxes(x, -1, -2);
  Singular s = SingularOf(b, hermitian ? SymmetricOf(b, Wide(b, x), false) : Wide(b, x));
  Operand counts = b.Greater(s.values, Threshold(c, x, s.values, atol, rtol));
  Operand inverse = b.Where(counts, b.Reciprocal(s.values), b.NumberLike(0, s.values));
  Operand scaled = b.Mul(s.right, b.Unsqueeze(inverse, {-2}));
  return b.CastLike(b.MatMul(scaled, b.SwapAxes(s.left, -1, -2)), x);
}
Result Pinv(Call& c) { return PseudoInverse(c, 1, 2, c.Bool(3)); }
// pinverse(x, rcond) and linalg_pinv(x, rcond, hermitian): only the relative tolerance.
Result PinvOld(Call& c) {
  if (c.arg_count() > 2 && c.Bool(2)) c.Unsupported("hermitian = True has no export");
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  if (x.static_shape() && x.static_shape()->ElementCount() == 0) return b.SwapAxes(x, -1, -2);
  Singular s = SingularOf(b, Wide(b, x));
  Operand relative = c.As(c.Any(1), DType::kDouble);
  if (relative.rank() > 0) relative = b.Unsqueeze(relative, {-1});
  Operand counts = b.Greater(s.values, b.Mul(relative, b.Slice(s.values, -1, Scalar(0), Scalar(1))));
  Operand inverse = b.Where(counts, b.Reciprocal(s.values), b.NumberLike(0, s.values));
  Operand scaled = b.Mul(s.right, b.Unsqueeze(inverse, {-2}));
  return b.CastLike(b.MatMul(scaled, b.SwapAxes(s.left, -1, -2)), x);
}

constexpr Rule kRules[] = {
    {"det(Tensor self)", Det},
    {"linalg_det(Tensor A)", Det},
    {"logdet(Tensor self)", LogDet},
    {"slogdet(Tensor self)", SlogDet},
    {"linalg_slogdet(Tensor A)", SlogDet},
    {"matrix_power(Tensor self, int n)", MatrixPower},
    {"linalg_matrix_power(Tensor self, int n)", MatrixPower},
    {"matrix_exp(Tensor self)", MatrixExp},
    {"linalg_matrix_exp(Tensor self)", MatrixExp},
    {"linalg_solve(Tensor A, Tensor B, *, bool left=True)", Solve},
    {"linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)", SolveEx},
    {"linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False)",
     SolveTriangular},
    {"triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)",
     TriangularSolve},
    {"linalg_tensorinv(Tensor self, int ind=2)", TensorInverse},
    {"linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None)", TensorSolve},
    {"inverse(Tensor self)", Inverse},
    {"linalg_inv(Tensor A)", Inverse},
    {"linalg_inv_ex(Tensor A, *, bool check_errors=False)", InverseEx},
    {"cholesky(Tensor self, bool upper=False)", Cholesky},
    {"linalg_cholesky(Tensor self, *, bool upper=False)", Cholesky},
    {"linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False)", CholeskyEx},
    {"cholesky_solve(Tensor self, Tensor input2, bool upper=False)", CholeskySolve},
    {"cholesky_inverse(Tensor self, bool upper=False)", CholeskyInverse},
    {"linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False)", LinalgLuSolve},
    {"lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots)", LuSolve},
    {"linalg_householder_product(Tensor input, Tensor tau)", HouseholderProduct},
    {"orgqr(Tensor self, Tensor input2)", HouseholderProduct},
    {"ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False)", Ormqr},
    {"linalg_svdvals(Tensor A, *, str? driver=None)", SingularValues},
    {"linalg_eigvalsh(Tensor self, str UPLO=\"L\")", EigenvaluesOfSymmetric},
    {"linalg_pinv.atol_rtol_tensor,atol_rtol_float(Tensor self, *, Any? atol=None, Any? rtol=None, "
     "bool hermitian=False)",
     Pinv},
    {"linalg_pinv.default,rcond_tensor(Tensor self, Any rcond, bool hermitian=False)", PinvOld},
    {"pinverse(Tensor self, float rcond=1e-15)", PinvOld},
};

}  // namespace

std::span<const Rule> LinalgRules() { return kRules; }

}  // namespace ferry::torch

// Decompositions that have one answer: QR as LAPACK signs it, LU with partial pivoting, and ranks.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "torch/lower/families.h"
#include "torch/lower/ops/matrices.h"

namespace ferry::torch {
namespace {

Operand Wide(Builder& b, const Operand& x) { return b.Cast(x, DType::kDouble); }
int64_t KnownSize(Call& c, const Operand& x, int64_t axis) {
  if (!x.dim(axis).known()) c.Unsupported("the sizes of the matrices must be known");
  return *x.dim(axis).value;
}
Operand FirstColumns(Builder& b, const Operand& x, int64_t count) { return b.Slice(x, -1, Scalar(0), Scalar(count)); }
Operand FirstRows(Builder& b, const Operand& x, int64_t count) { return b.Slice(x, -2, Scalar(0), Scalar(count)); }

Result Geqrf(Call& c) {
  Operand x = c.Tensor(0);
  Reflected r = ReflectorsOf(c.b, Wide(c.b, x));
  return Operands{c.b.CastLike(r.packed, x), c.b.CastLike(r.tau, x)};
}
Operands QrOf(Call& c, const Operand& x, bool complete, bool only_r) {
  Builder& b = c.b;
  int64_t rows = KnownSize(c, x, -2), count = std::min(rows, KnownSize(c, x, -1));
  Reflected r = ReflectorsOf(b, Wide(b, x));
  int64_t kept = complete ? rows : count;
  Operand upper = b.CastLike(FirstRows(b, Triangle(b, r.packed, true), kept), x);
  if (only_r) return {b.Constant(Tensor::Zeros(x.dtype(), {0})), upper};
  Operand start = FirstColumns(b, IdentityLike(b, r.packed), kept);
  return {b.CastLike(ApplyReflectors(b, r.packed, r.tau, start, false), x), upper};
}
Result LinalgQr(Call& c) {
  std::string mode = c.Text(1);
  return QrOf(c, c.Tensor(0), mode == "complete", mode == "r");
}
Result Qr(Call& c) { return QrOf(c, c.Tensor(0), !c.Bool(1), false); }

Operand NoInfo(Builder& b, const Operand& matrices) {
  std::vector<Scalar> sizes = b.Sizes(matrices);
  sizes.resize(sizes.size() - 2);
  return b.Fill(0, DType::kInt32, b.ShapeVector(sizes));
}
Operands LuFactors(Call& c) {
  Operand x = c.Tensor(0);
  if (!c.Bool(1)) c.Unsupported("LU without pivoting has no export");
  Eliminated lu = EliminationOf(c.b, Wide(c.b, x));
  return {c.b.CastLike(lu.packed, x), lu.pivots, NoInfo(c.b, x)};
}
Result LuFactor(Call& c) {
  Operands factors = LuFactors(c);
  factors.pop_back();
  return factors;
}
Result LuFactorEx(Call& c) { return LuFactors(c); }
// P, L and U from their compact form: row i of the product is row perm[i] of A.
Operands Unpacked(Call& c, const Operand& packed, const Operand& pivots) {
  Builder& b = c.b;
  int64_t rows = KnownSize(c, packed, -2), count = std::min(rows, KnownSize(c, packed, -1));
  Operand strict = FirstColumns(b, Triangle(b, packed, false, -1), count);
  Operand order = b.Range(b.Int(0), b.Int(rows), b.Int(1)), columns = b.Range(b.Int(0), b.Int(count), b.Int(1));
  Operand lower = b.Add(strict, b.CastLike(b.Equal(b.Unsqueeze(order, {1}), columns), packed));
  Operand upper = FirstRows(b, Triangle(b, packed, true), count);
  Operand permutation = b.Unsqueeze(PermutationOf(b, pivots, rows), {-2});  // [..., 1, rows]
  Operand matrix = b.CastLike(b.Equal(permutation, b.Unsqueeze(order, {1})), packed);
  return {matrix, lower, upper};
}
Result Lu(Call& c) {
  Operands factors = LuFactors(c);
  return Unpacked(c, factors[0], factors[1]);
}
Result LuUnpack(Call& c) {
  if (!c.Bool(2) || !c.Bool(3)) c.Unsupported("unpacking only a part has no export");
  return Unpacked(c, c.Tensor(0), c.Tensor(1));
}

// How many singular values are above max(atol, rtol · σ1).
Result MatrixRank(Call& c) {
  Builder& b = c.b;
  Operand x = c.Tensor(0);
  Operand values = SingularOf(b, c.Bool(3) ? SymmetricOf(b, Wide(b, x), false) : Wide(b, x)).values;
  double epsilon =
      x.dtype() == DType::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  auto size = static_cast<double>(std::max(KnownSize(c, x, -2), KnownSize(c, x, -1)));
  auto tolerance = [&](size_t i) {
    Operand given = c.As(c.Any(i), DType::kDouble);
    return given.rank() == 0 ? given : b.Unsqueeze(given, {-1});
  };
  Operand absolute = c.IsNone(1) ? b.NumberLike(0, values) : tolerance(1);
  Operand relative = b.NumberLike(size * epsilon, values);
  if (!c.IsNone(2))
    relative = tolerance(2);
  else if (!c.IsNone(1))
    relative = b.Where(b.Greater(absolute, 0), b.NumberLike(0, values), relative);
  Operand least = b.Max(absolute, b.Mul(relative, b.Slice(values, -1, Scalar(0), Scalar(1))));
  return b.Reduce("ReduceSum", b.Cast(b.Greater(values, least), DType::kInt64), {-1}, false);
}

constexpr Rule kRules[] = {
    {"geqrf(Tensor self)", Geqrf},
    {"linalg_qr(Tensor A, str mode=\"reduced\")", LinalgQr},
    {"qr(Tensor self, bool some=True)", Qr},
    {"linalg_lu_factor(Tensor A, *, bool pivot=True)", LuFactor},
    {"linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False)", LuFactorEx},
    {"_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True)", LuFactorEx},
    {"linalg_lu(Tensor A, *, bool pivot=True)", Lu},
    {"lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)", LuUnpack},
    {"linalg_matrix_rank.atol_rtol_tensor,atol_rtol_float(Tensor self, *, Any? atol=None, Any? rtol=None, "
     "bool hermitian=False)",
     MatrixRank},
};

}  // namespace

std::span<const Rule> DecompositionRules() { return kRules; }

}  // namespace ferry::torch

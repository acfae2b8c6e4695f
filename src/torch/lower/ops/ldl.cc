// Systems whose matrix was factored as LAPACK's sytrf does it: P₁L₁P₂L₂ … D … L₂ᵀP₂L₁ᵀP₁, D of blocks of one and two.
#include <numeric>

#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

// One step of the factorization, for a whole batch: which rows it swaps, and the columns it subtracts.
struct Step {
  Operand swap;            // [*, n, n]
  Operand column, second;  // [*, n, 1]; the second is 0 but for blocks of two
};

class Factors {
 public:
  Factors(Call& c, const Operand& ld, const Operand& pivots) : b_(c.b), ld_(ld), dtype_(ld.dtype()) {
    Dim size = ld.dim(-1);
    constexpr int64_t kMost = 64;
    if (!size.known() || *size.value > kMost) c.Unsupported("its matrices must have a known size of at most ", kMost);
    size_ = *size.value;
    Operand wide = b_.Cast(pivots, DType::kInt64);
    for (int64_t k = 0; k < size_; ++k) {
      Operand pivot = b_.Slice(wide, -1, Scalar(k), Scalar(k + 1));  // [*, 1]
      Operand negative = b_.Less(pivot, 0);
      Operand begins = k == 0 ? negative : b_.And(negative, b_.Not(begins_.back()));
      ends_.push_back(k == 0 ? b_.And(begins, b_.Not(begins)) : begins_.back());
      begins_.push_back(begins);
      pivots_.push_back(pivot);
    }
  }

  Operand Solve(Operand x) {
    std::vector<Step> steps;
    for (int64_t k = 0; k < size_; ++k) {
      steps.push_back(MakeStep(k));
      const Step& step = steps.back();
      x = b_.MatMul(step.swap, x);
      Operand removed = b_.Mul(step.column, Row(x, k));
      if (k + 1 < size_) removed = b_.Add(removed, b_.Mul(step.second, Row(x, k + 1)));
      x = b_.Sub(x, removed);
    }
    x = b_.MatMul(InverseBlocks(), x);
    for (int64_t k = size_; k-- > 0;) {
      const Step& step = steps[static_cast<size_t>(k)];
      Operand removed = b_.Mul(Unit(k), b_.MatMul(b_.SwapAxes(step.column, -1, -2), x));
      if (k + 1 < size_) removed = b_.Add(removed, b_.Mul(Unit(k + 1), b_.MatMul(b_.SwapAxes(step.second, -1, -2), x)));
      x = b_.MatMul(step.swap, b_.Sub(x, removed));
    }
    return x;
  }

 private:
  Operand Row(const Operand& x, int64_t k) { return b_.Slice(x, -2, Scalar(k), Scalar(k + 1)); }
  Operand Column(int64_t k) { return b_.Slice(ld_, -1, Scalar(k), Scalar(k + 1)); }
  Operand Rows() {
    std::vector<int64_t> rows(static_cast<size_t>(size_));
    std::iota(rows.begin(), rows.end(), 0);
    return b_.Ints(rows);
  }
  Operand Unit(int64_t k) { return b_.Unsqueeze(b_.Cast(b_.Equal(Rows(), b_.Int(k)), dtype_), {-1}); }
  Operand Below(int64_t k) { return b_.Unsqueeze(b_.Cast(b_.Greater(Rows(), b_.Int(k)), dtype_), {-1}); }
  Operand Factor(const Operand& truth) { return b_.Unsqueeze(b_.Cast(truth, dtype_), {-1}); }  // [*, 1, 1]
  Operand At(const std::vector<Operand>& of, int64_t k) { return of[static_cast<size_t>(k)]; }

  Step MakeStep(int64_t k) {
    Operand begins = At(begins_, k), ends = At(ends_, k), pivot = At(pivots_, k);
    Operand row = b_.Where(begins, b_.Int(k + 1), b_.Int(k));
    Operand with = b_.Where(ends, row, b_.Sub(b_.Abs(pivot), b_.Int(1)));
    Operand order = b_.Where(b_.Equal(Rows(), row), with, b_.Where(b_.Equal(Rows(), with), row, Rows()));
    Step step;
    step.swap = b_.Cast(b_.Equal(b_.Unsqueeze(order, {-1}), Rows()), dtype_);
    Operand below = b_.Where(b_.Unsqueeze(begins, {-1}), Below(k + 1), Below(k));
    step.column = b_.Mul(b_.Mul(Column(k), below), Factor(b_.Not(ends)));
    if (k + 1 < size_) step.second = b_.Mul(b_.Mul(Column(k + 1), Below(k + 1)), Factor(begins));
    return step;
  }

  // D⁻¹, as a sum of its entries.
  Operand InverseBlocks() {
    Operand sum;
    auto put = [&](int64_t row, int64_t column, const Operand& value) {
      Operand placed = b_.Mul(b_.Mul(Unit(row), b_.SwapAxes(Unit(column), 0, 1)), value);
      sum = sum ? b_.Add(sum, placed) : placed;
    };
    auto entry = [&](int64_t row, int64_t column) { return Row(Column(column), row); };
    for (int64_t k = 0; k < size_; ++k) {
      Operand alone = b_.Unsqueeze(b_.Not(b_.Or(At(begins_, k), At(ends_, k))), {-1});
      put(k, k, b_.Where(alone, b_.Reciprocal(entry(k, k)), b_.Number(0, dtype_)));
      if (k + 1 == size_) break;
      Operand first = entry(k, k), last = entry(k + 1, k + 1), side = entry(k + 1, k);
      Operand pair = b_.Unsqueeze(At(begins_, k), {-1});
      Operand determinant = b_.Where(pair, b_.Sub(b_.Mul(first, last), b_.Mul(side, side)), b_.Number(1, dtype_));
      auto of_pair = [&](const Operand& value) {
        return b_.Where(pair, b_.Div(value, determinant), b_.Number(0, dtype_));
      };
      put(k, k, of_pair(last));
      put(k + 1, k + 1, of_pair(first));
      put(k, k + 1, of_pair(b_.Neg(side)));
      put(k + 1, k, of_pair(b_.Neg(side)));
    }
    return sum;
  }

  Builder& b_;
  Operand ld_;
  DType dtype_;
  int64_t size_ = 0;
  std::vector<Operand> begins_, ends_, pivots_;  // [*, 1]: whether a block of two begins or ends at a row
};

Result LdlSolve(Call& c) {
  Operand b = c.Tensor(2);
  if (b.dim(-2).known() && *b.dim(-2).value == 0) return b;
  return Factors(c, c.Tensor(0), c.Tensor(1)).Solve(b);
}

constexpr Rule kRules[] = {
    {"linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False)", LdlSolve},
};

}  // namespace

std::span<const Rule> LdlRules() { return kRules; }

}  // namespace ferry::torch

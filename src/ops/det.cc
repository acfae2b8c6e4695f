#include <cmath>
#include <utility>

#include "base/check_run.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// Elimination with the largest pivot of each column; in double, so that float results are good to the last bits.
double Determinant(std::vector<double>& matrix, int64_t n) {
  double determinant = 1;
  auto at = [&](int64_t row, int64_t column) -> double& { return matrix[static_cast<size_t>(row * n + column)]; };
  for (int64_t column = 0; column < n; ++column) {
    CheckRun();
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row)
      if (std::abs(at(row, column)) > std::abs(at(pivot, column))) pivot = row;
    if (at(pivot, column) == 0) return 0;
    if (pivot != column) {
      for (int64_t j = column; j < n; ++j) std::swap(at(pivot, j), at(column, j));
      determinant = -determinant;
    }
    determinant *= at(column, column);
    for (int64_t row = column + 1; row < n; ++row) {
      double factor = at(row, column) / at(column, column);
      for (int64_t j = column + 1; j < n; ++j) at(row, j) -= factor * at(column, j);
    }
  }
  return determinant;
}

void ComputeDet(OpContext& context) {
  const Tensor& x = context.Input(0);
  size_t rank = x.rank();
  Require(rank >= 2 && x.dim(rank - 1) == x.dim(rank - 2), "needs square matrices, got shape ", x.shape());
  int64_t n = x.dim(rank - 1);
  Tensor& y = context.Output(0, x.dtype(), Shape(x.shape().dims().first(rank - 2)));
  Tensor wide = WidenToFloat(x);
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, y.shape()) : y;
  Dispatch(FloatTypes{}, wide.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = wide.Data<T>();
    T* to = result.MutableData<T>();
    context.ParallelFor(y.size(), 1 + 4096 / std::max<int64_t>(n * n * n, 1), [&](int64_t begin, int64_t end) {
      std::vector<double> matrix;
      for (int64_t i = begin; i < end; ++i) {
        matrix.assign(from + i * n * n, from + (i + 1) * n * n);
        to[i] = static_cast<T>(Determinant(matrix, n));
      }
    });
  });
  NarrowInto(result, y);
}

void InferDet(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x) return context.SetOutput(0, context.InputDType(0));
  Require(x->size() >= 2, "needs square matrices, got shape ", *x);
  context.SetOutput(0, context.InputDType(0), SymbolicShape(x->begin(), x->end() - 2));
}

}  // namespace

FERRY_OPERATOR(Det, {.compute = ComputeDet, .infer = InferDet});

}  // namespace ferry

// The inverse of each matrix of a stack: elimination with the largest pivots, in double.
#include <cmath>
#include <vector>

#include "ops/operator.h"
#include "ops/support/cast_tensor.h"
#include "ops/support/infer.h"

namespace ferry {
namespace {

// `m` becomes the identity, `out` the inverse; a matrix that has none gives infinities and NaN.
void Invert(double* m, double* out, int64_t n) {
  for (int64_t i = 0; i < n * n; ++i) out[i] = i % (n + 1) == 0 ? 1 : 0;
  auto swap_rows = [n](double* a, int64_t i, int64_t j) { std::swap_ranges(a + i * n, a + (i + 1) * n, a + j * n); };
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row)
      if (std::abs(m[row * n + column]) > std::abs(m[pivot * n + column])) pivot = row;
    if (pivot != column) {
      swap_rows(m, pivot, column);
      swap_rows(out, pivot, column);
    }
    double factor = 1 / m[column * n + column];
    for (int64_t i = 0; i < n; ++i) {
      m[column * n + i] *= factor;
      out[column * n + i] *= factor;
    }
    for (int64_t row = 0; row < n; ++row) {
      double times = m[row * n + column];
      if (row == column || times == 0) continue;
      for (int64_t i = 0; i < n; ++i) {
        m[row * n + i] -= times * m[column * n + i];
        out[row * n + i] -= times * out[column * n + i];
      }
    }
  }
}

void ComputeInverse(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(IsFloating(x.dtype()), "a matrix of ", x.dtype(), " cannot be inverted");
  Require(x.rank() >= 2 && x.shape().back() == x.dim(x.rank() - 2), "matrices must be square, the input's shape is ",
          x.shape());
  int64_t n = x.shape().back();
  Tensor wide = CastTensor(x, DType::kDouble);
  if (wide.raw() == x.raw()) wide = wide.Clone();
  Tensor result(DType::kDouble, x.shape());
  context.ParallelFor(n > 0 ? x.size() / (n * n) : 0, 1 + 4096 / std::max<int64_t>(1, n * n * n),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i)
                          Invert(wide.MutableData<double>() + i * n * n, result.MutableData<double>() + i * n * n, n);
                      });
  CastInto(result, context.Output(0, x.dtype(), x.shape()));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, Inverse, {.compute = ComputeInverse, .infer = InferSameAsInput});

}  // namespace ferry

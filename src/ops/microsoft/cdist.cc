// Distances between all rows of A and all rows of B, squared unless metric is "euclidean".
#include <cmath>

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/moments.h"

namespace ferry {
namespace {

void ComputeCDist(OpContext& context) {
  const Tensor &a = context.Input(0), &b = context.Input(1);
  std::string metric = context.node().String("metric", "sqeuclidean");
  Require(metric == "euclidean" || metric == "sqeuclidean", "metric must be euclidean or sqeuclidean, is \"",
          Printable(metric), "\"");
  Require(a.dtype() == b.dtype() && a.rank() == 2 && b.rank() == 2 && a.dim(1) == b.dim(1), "A ", a.dtype(), a.shape(),
          " and B ", b.dtype(), b.shape(), " must be matrices of one type with rows of one length");
  Tensor& y = context.Output(0, a.dtype(), Shape{a.dim(0), b.dim(0)});
  int64_t depth = a.dim(1), columns = b.dim(0);
  Dispatch(FloatTypes{}, a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    context.ParallelFor(a.dim(0), 1 + 8192 / std::max<int64_t>(1, columns * depth), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          const T *x = a.Data<T>() + i * depth, *z = b.Data<T>() + j * depth;
          double sum = 0;
          for (int64_t k = 0; k < depth; ++k) {
            double difference = static_cast<double>(x[k]) - static_cast<double>(z[k]);
            sum += difference * difference;
          }
          y.MutableData<T>()[i * columns + j] = static_cast<T>(metric == "euclidean" ? std::sqrt(sum) : sum);
        }
    });
  });
}

void InferCDist(InferContext& context) {
  const SymbolicShape *a = context.InputShape(0), *b = context.InputShape(1);
  DType type = context.InputDType(0);
  if (!a || !b || a->size() != 2 || b->size() != 2) return context.SetOutput(0, type);
  context.SetOutput(0, type, {(*a)[0], (*b)[0]});
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, CDist, {.compute = ComputeCDist, .infer = InferCDist});

}  // namespace ferry

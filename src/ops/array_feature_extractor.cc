#include "ops/operator.h"
#include "ops/support/dispatch.h"

namespace ferry {

static void ComputeArrayFeatureExtractor(OpContext& context) {
  const Tensor& x = context.Input(0);
  std::vector<int64_t> indices = ToInt64Vector(context.Input(1));
  Require(x.rank() >= 1, "the data must have at least one dimension");
  int64_t columns = x.shape().back(), picked = static_cast<int64_t>(indices.size());
  for (int64_t index : indices)
    Require(index >= 0 && index < columns, "index ", index, " is outside the last dimension, which has ", columns);
  // A vector counts as a matrix of one row.
  Shape shape = x.rank() == 1 ? Shape{1, picked} : x.shape();
  shape.back() = picked;
  Tensor& z = context.Output(0, x.dtype(), shape);
  int64_t rows = x.shape().CountBetween(0, x.rank() - 1);
  Dispatch(TypeList<float, double, int32_t, int64_t, std::string>{}, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.Data<T>();
    T* to = z.MutableData<T>();
    for (int64_t row = 0; row < rows; ++row, from += columns)
      for (int64_t index : indices) *to++ = from[index];
  });
}

static void InferArrayFeatureExtractor(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* indices = context.InputShape(1);
  if (!x || x->empty()) return context.SetOutput(0, context.InputDType(0));
  SymbolicShape shape = x->size() == 1 ? SymbolicShape{1, Dim()} : *x;
  shape.back() = indices ? CountElements(*indices) : Dim();
  context.SetOutput(0, context.InputDType(0), std::move(shape));
}

FERRY_OPERATOR_IN(ml, ArrayFeatureExtractor,
                  {.compute = ComputeArrayFeatureExtractor,
                   .infer = InferArrayFeatureExtractor,
                   .moves_elements = true});

}  // namespace ferry

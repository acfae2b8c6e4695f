#include <cmath>

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/infer.h"
#include "ops/support/rounding.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// Swish(a) · b, rounded after each step as the chain of operators it stands for.
void ComputeSwiGLU(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& b = context.Input(1);
  Require(a.shape() == b.shape() && a.dtype() == b.dtype(), "A ", a.dtype(), a.shape(), " and B ", b.dtype(), b.shape(),
          " must have one type and shape");
  Tensor& y = context.Output(0, a.dtype(), a.shape());
  Tensor wide_a = WidenToFloat(a), wide_b = WidenToFloat(b);
  Tensor result = IsSmallFloat(a.dtype()) ? Tensor(DType::kFloat, a.shape()) : y;
  Dispatch(FloatTypes{}, wide_a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* gate = wide_a.Data<T>();
    const T* value = wide_b.Data<T>();
    T* to = result.MutableData<T>();
    T alpha = static_cast<T>(context.node().Float("alpha", 1.0f));
    context.ParallelFor(a.size(), 8192, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T sigmoid = T{1} / (T{1} + std::exp(-alpha * gate[i]));
        RoundTo(a.dtype(), &sigmoid, 1);
        T swish = gate[i] * sigmoid;
        RoundTo(a.dtype(), &swish, 1);
        to[i] = swish * value[i];
      }
    });
  });
  NarrowInto(result, y);
}

void InferSwiGLU(InferContext& context) { context.SetOutput(0, Merge(context.InputType(0), context.InputType(1))); }

}  // namespace

FERRY_OPERATOR(SwiGLU, {.compute = ComputeSwiGLU, .infer = InferSwiGLU});

}  // namespace ferry

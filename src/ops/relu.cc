#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/infer.h"
#include "ops/support/widen.h"

namespace ferry {

static void ComputeRelu(OpContext& context) {
  const Tensor& x = context.Input(0);
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Tensor wide = IsSmallFloat(x.dtype()) ? WidenToFloat(x) : x;
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, x.shape()) : y;
  Dispatch(TypeList<float, double, int8_t, int16_t, int32_t, int64_t>{}, wide.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = wide.Data<T>();
    T* to = result.MutableData<T>();
    // Written so that NaN stays NaN.
    for (int64_t i = 0; i < wide.size(); ++i) to[i] = from[i] < T{0} ? T{0} : from[i];
  });
  NarrowInto(result, y);
}

FERRY_OPERATOR(Relu, {.compute = ComputeRelu, .infer = InferSameAsInput, .in_place = kInput0});

}  // namespace ferry

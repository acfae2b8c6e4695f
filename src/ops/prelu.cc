#include "ops/support/elementwise.h"

namespace ferry {

static void ComputePRelu(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& slope = context.Input(1);
  Require(BroadcastShapes(x.shape(), slope.shape()) == x.shape(), "slope of shape ", slope.shape(),
          " cannot be broadcast to the input's shape ", x.shape());
  ComputeBinary(context, TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>{}, [](auto value, auto factor) {
    using T = decltype(value);
    if constexpr (std::is_floating_point_v<T>)
      return value < 0 ? value * factor : value;
    else
      return value < T{0} ? static_cast<T>(static_cast<uint64_t>(value) * static_cast<uint64_t>(factor)) : value;
  });
}

FERRY_OPERATOR(PRelu, {.compute = ComputePRelu,
                       .infer = InferSameAsInput,
                       .in_place = kInput0,
                       .elementwise = Elementwise::kOfSeveral});

}  // namespace ferry

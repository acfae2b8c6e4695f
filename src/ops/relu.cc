#include "ops/support/elementwise.h"

namespace ferry {

static void ComputeRelu(OpContext& context) {
  // Written so that NaN stays NaN.
  MapElements(context, TypeList<float, double, int8_t, int16_t, int32_t, int64_t>{}, [](auto x) {
    using T = decltype(x);
    return x < T{0} ? T{0} : x;
  });
}

FERRY_OPERATOR(Relu, (ElementMap(ComputeRelu)));

}  // namespace ferry

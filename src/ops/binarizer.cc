#include "ops/support/elementwise.h"

namespace ferry {

static void ComputeBinarizer(OpContext& context) {
  const Tensor& x = context.Input(0);
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  double threshold = context.node().Float("threshold", 0.0f);
  Dispatch(TypeList<float, double, int32_t, int64_t>{}, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.Data<T>();
    T* to = y.MutableData<T>();
    for (int64_t i = 0; i < x.size(); ++i) to[i] = static_cast<double>(from[i]) > threshold ? T{1} : T{0};
  });
}

FERRY_OPERATOR_IN(ml, Binarizer, (ElementMap(ComputeBinarizer)));

}  // namespace ferry

#include <cmath>

#include "ops/support/elementwise.h"

namespace ferry {
namespace {

template <class F>
void ComputeTest(OpContext& context, const F& test) {
  const Tensor& x = context.Input(0);
  Tensor& y = context.Output(0, DType::kBool, x.shape());
  Dispatch(FloatTypes{}, ComputeType(x.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    RunMap(context, x, y, [&](const void* from, void* to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) static_cast<bool*>(to)[i] = test(static_cast<const T*>(from)[i]);
    });
  });
}

void ComputeIsInf(OpContext& context) {
  bool negative = context.node().Int("detect_negative", 1) != 0;
  bool positive = context.node().Int("detect_positive", 1) != 0;
  ComputeTest(context, [=](auto x) { return std::isinf(x) && (x < 0 ? negative : positive); });
}

void ComputeIsNaN(OpContext& context) {
  ComputeTest(context, [](auto x) { return std::isnan(x); });
}

}  // namespace

FERRY_OPERATOR(IsInf, {.compute = ComputeIsInf, .infer = InferComparison, .elementwise = Elementwise::kOfOne});
FERRY_OPERATOR(IsNaN, {.compute = ComputeIsNaN, .infer = InferComparison, .elementwise = Elementwise::kOfOne});

}  // namespace ferry

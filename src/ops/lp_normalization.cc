#include <cmath>

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/infer.h"
#include "ops/support/lines.h"
#include "ops/support/widen.h"

namespace ferry {

static void ComputeLpNormalization(OpContext& context) {
  const Tensor& x = context.Input(0);
  int64_t p = context.node().Int("p", 2);
  Require(p == 1 || p == 2, "attribute 'p' must be 1 or 2, is ", p);
  size_t axis = NormalizeAxis(context.node().Int("axis", -1), x.rank());
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Dispatch(FloatTypes{}, ComputeType(x.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    RunLines(context, x, y, axis, [&](const void* from, void* to, int64_t count) {
      auto* in = static_cast<const T*>(from);
      auto* out = static_cast<T*>(to);
      double sum = 0;
      ForLookedParts(count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) sum += p == 1 ? std::abs(double{in[i]}) : double{in[i]} * in[i];
      });
      double norm = p == 1 ? sum : std::sqrt(sum);
      ForLookedParts(count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) out[i] = norm == 0 ? T{0} : static_cast<T>(in[i] / norm);
      });
    });
  });
}

FERRY_OPERATOR(LpNormalization, {.compute = ComputeLpNormalization, .infer = InferSameAlongAxis, .in_place = kInput0});

}  // namespace ferry

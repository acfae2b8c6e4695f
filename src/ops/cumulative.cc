#include <type_traits>

#include "base/poll.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/infer.h"
#include "ops/support/lines.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

struct Sum {
  template <class T>
  static T Join(T a, T b) {
    return a + b;
  }
  static constexpr int kNeutral = 0;
};

struct Product {
  template <class T>
  static T Join(T a, T b) {
    return a * b;
  }
  static constexpr int kNeutral = 1;
};

// Floats run along in double, integers wrap. x and y may be the same line.
template <class Operation, class T>
void RunningLine(const T* x, T* y, int64_t count, bool exclusive, bool reverse) {
  using Running = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  Running running = Operation::kNeutral;
  Poll poll;
  for (int64_t step = 0; step < count; ++step, poll()) {
    int64_t i = reverse ? count - 1 - step : step;
    Running before = running;
    running = Operation::Join(running, static_cast<Running>(x[i]));
    y[i] = static_cast<T>(exclusive ? before : running);
  }
}

template <class Operation>
void ComputeCumulative(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& axis = context.Input(1);
  Require(axis.size() == 1, "'axis' must be a scalar, has shape ", axis.shape());
  size_t along = NormalizeAxis(ToInt64Vector(axis)[0], x.rank());
  bool exclusive = context.node().Int("exclusive", 0) != 0, reverse = context.node().Int("reverse", 0) != 0;
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Dispatch(TypeList<float, double, int32_t, int64_t, uint32_t, uint64_t>{}, ComputeType(x.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    RunLines(context, x, y, along, [&](const void* from, void* to, int64_t count) {
      RunningLine<Operation>(static_cast<const T*>(from), static_cast<T*>(to), count, exclusive, reverse);
    });
  });
}

}  // namespace

FERRY_OPERATOR(CumSum, {.compute = ComputeCumulative<Sum>, .infer = InferSameAsInput, .in_place = kInput0});
FERRY_OPERATOR(CumProd, {.compute = ComputeCumulative<Product>, .infer = InferSameAsInput, .in_place = kInput0});

}  // namespace ferry

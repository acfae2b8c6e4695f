#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/infer.h"
#include "ops/support/lines.h"
#include "ops/support/softmax_line.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

template <class Line>
void ComputeLines(OpContext& context, const Line& line) {
  const Tensor& x = context.Input(0);
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  int64_t axis = context.node().Int("axis", -1);
  // A scalar is a line of one, whatever axis is named.
  const bool is_scalar = x.rank() == 0 && (axis == -1 || axis == 0);
  Tensor from = is_scalar ? x.Reshaped({1}) : x, to = is_scalar ? y.Reshaped({1}) : y;
  Dispatch(FloatTypes{}, ComputeType(x.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    RunLines(context, from, to, NormalizeAxis(axis, from.rank()), [&](const void* in, void* out, int64_t count) {
      line(static_cast<const T*>(in), static_cast<T*>(out), count);
    });
  });
}

template <class T>
void HardmaxLine(const T* x, T* y, int64_t count) {
  T largest = LargestOf(x, count);
  bool found = false;
  ForLookedParts(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      bool is_first = !found && (x[i] == largest || x[i] != x[i]);
      y[i] = is_first ? T{1} : T{0};
      found |= is_first;
    }
  });
}

void ComputeSoftmax(OpContext& context) {
  DType type = context.Input(0).dtype();
  if (IsSmallFloat(type))
    return ComputeLines(context, [type](const auto* x, auto* y, int64_t count) {
      if constexpr (std::is_same_v<decltype(y), float*>) RoundedSoftmaxLine(type, x, y, count);
    });
  ComputeLines(context, [](const auto* x, auto* y, int64_t count) { SoftmaxLine(x, y, count); });
}
void ComputeLogSoftmax(OpContext& context) {
  ComputeLines(context, [](const auto* x, auto* y, int64_t count) { LogSoftmaxLine(x, y, count); });
}
void ComputeHardmax(OpContext& context) {
  ComputeLines(context, [](const auto* x, auto* y, int64_t count) { HardmaxLine(x, y, count); });
}

}  // namespace

FERRY_OPERATOR(Softmax, {.compute = ComputeSoftmax, .infer = InferSameAlongAxis, .in_place = kInput0});
FERRY_OPERATOR(LogSoftmax, {.compute = ComputeLogSoftmax, .infer = InferSameAlongAxis, .in_place = kInput0});
FERRY_OPERATOR(Hardmax, {.compute = ComputeHardmax, .infer = InferSameAlongAxis, .in_place = kInput0});

}  // namespace ferry

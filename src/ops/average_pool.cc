#include <cmath>

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/pool.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// How many taps of the window at each output along an axis are counted: those on the input, or those on the padded
// input. What lies beyond the padding (windows that ceil_mode lets stick out) never counts.
std::vector<int64_t> CountTaps(const WindowAxis& axis, bool include_padding) {
  int64_t low = include_padding ? -axis.pad_begin : 0;
  int64_t high = axis.input + (include_padding ? axis.pad_end : 0);
  std::vector<int64_t> counts(static_cast<size_t>(axis.output));
  for (int64_t out = 0; out < axis.output; ++out) {
    int64_t start = axis.Position(out, 0);
    int64_t first = start >= low ? 0 : (low - start + axis.dilation - 1) / axis.dilation;
    int64_t end = start >= high ? 0 : std::min(axis.kernel, (high - 1 - start) / axis.dilation + 1);
    counts[static_cast<size_t>(out)] = std::max<int64_t>(0, end - first);
  }
  return counts;
}

// The number of taps counted at each output pixel.
std::vector<double> CountWindows(const PoolPlan& plan, bool include_padding) {
  std::vector<double> counts(static_cast<size_t>(plan.counts.output), 1.0);
  int64_t inner = plan.counts.output;
  for (const WindowAxis& axis : plan.axes) {
    if (inner == 0) break;
    inner /= axis.output;
    std::vector<int64_t> taps = CountTaps(axis, include_padding);
    WorkPoll poll;
    for (int64_t i = 0; i < plan.counts.output; ++i, poll(16))
      counts[static_cast<size_t>(i)] *= static_cast<double>(taps[static_cast<size_t>(i / inner % axis.output)]);
  }
  return counts;
}

// out[pixel] = Σ term(x) over the window.
template <class T, class Term>
void SumPlane(const PoolPlan& plan, const T* plane, T* out, const Term& term) {
  const WindowAxis& last = plan.axes.back();
  std::fill_n(out, plan.counts.output, T{0});
  WorkPoll poll;
  ForEachKernelRow(plan.axes, [&](int64_t row, int64_t, int64_t offset) {
    poll(last.kernel * last.output);
    T* to = out + row * last.output;
    for (int64_t k = 0; k < last.kernel; ++k) {
      OutputRange valid = ValidOutputs(last, k);
      int64_t from = offset + last.Position(0, k);
      for (int64_t j = valid.begin; j < valid.end; ++j) to[j] += term(plane[from + j * last.stride]);
    }
  });
}

template <class T>
struct AveragePooling {
  std::vector<double> counts;

  void Run(const PoolPlan& plan, const T* plane, T* out) const {
    SumPlane(plan, plane, out, [](T value) { return value; });
    for (int64_t i = 0; i < plan.counts.output; ++i) out[i] /= static_cast<T>(counts[static_cast<size_t>(i)]);
  }
};

template <class T>
struct LpPooling {
  T p;

  void Run(const PoolPlan& plan, const T* plane, T* out) const {
    if (p == T{1}) return SumPlane(plan, plane, out, [](T value) { return std::abs(value); });
    if (p == T{2}) {
      SumPlane(plan, plane, out, [](T value) { return value * value; });
      for (int64_t i = 0; i < plan.counts.output; ++i) out[i] = std::sqrt(out[i]);
      return;
    }
    SumPlane(plan, plane, out, [this](T value) { return std::pow(std::abs(value), p); });
    for (int64_t i = 0; i < plan.counts.output; ++i) out[i] = std::pow(out[i], T{1} / p);
  }
};

template <template <class> class Pooling, class Argument>
void ComputePool(OpContext& context, const PoolPlan& plan, const Argument& argument) {
  const Tensor& x = context.Input(0);
  Tensor& y = context.Output(0, x.dtype(), plan.output);
  Tensor wide = WidenToFloat(x);
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, plan.output) : y;
  int64_t work = std::max<int64_t>(plan.counts.output * plan.counts.taps, 1);
  Dispatch(FloatTypes{}, wide.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Pooling<T> pooling{argument};
    const T* from = wide.Data<T>();
    T* to = result.MutableData<T>();
    context.ParallelFor(plan.planes, 1 + 65536 / work, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        pooling.Run(plan, from + i * plan.counts.input, to + i * plan.counts.output);
    });
  });
  NarrowInto(result, y);
}

void ComputeAveragePool(OpContext& context) {
  PoolPlan plan(context.node(), context.Input(0).shape());
  bool include_padding = context.node().Int("count_include_pad", 0) != 0;
  ComputePool<AveragePooling>(context, plan, CountWindows(plan, include_padding));
}

void ComputeLpPool(OpContext& context) {
  PoolPlan plan(context.node(), context.Input(0).shape());
  int64_t p = context.node().Int("p", 2);
  Require(p >= 1, "p must be at least 1, is ", p);
  ComputePool<LpPooling>(context, plan, static_cast<float>(p));
}

void InferPool(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x) return context.SetOutput(0, context.InputDType(0));
  context.SetOutput(0, context.InputDType(0), InferPooled(context, *x));
}

}  // namespace

FERRY_OPERATOR(AveragePool, {.compute = ComputeAveragePool, .infer = InferPool});
FERRY_OPERATOR(LpPool, {.compute = ComputeLpPool, .infer = InferPool});

}  // namespace ferry

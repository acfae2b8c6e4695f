#include "ops/support/conv_transpose.h"

#include <algorithm>

#include "base/work_poll.h"
#include "kernels/gemm.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

constexpr int64_t kColumnElements = int64_t{1} << 18;  // that a thread works on at a time

// Adds what one tap brings: out[i · stride − pad + tap · dilation] += column[i] for every input position i.
template <class T>
void ScatterTap(const TransposePlan& plan, const std::vector<int64_t>& tap, const T* column, T* plane) {
  const WindowAxis& last = plan.axes.back();
  size_t outer_rank = plan.axes.size() - 1;
  std::vector<int64_t> at(outer_rank);
  int64_t first = last.Position(0, tap.back());
  int64_t begin = first >= 0 ? 0 : (-first + last.stride - 1) / last.stride;
  int64_t end = first >= last.output ? 0 : std::min(last.input, (last.output - 1 - first) / last.stride + 1);
  int64_t rows = plan.counts.input / std::max<int64_t>(last.input, 1);
  WorkPoll poll;
  for (int64_t row = 0; row < rows; ++row, column += last.input) {
    poll(last.input);
    int64_t offset = 0;
    bool inside = true;
    for (size_t a = 0; a < outer_rank && inside; ++a) {
      int64_t position = plan.axes[a].Position(at[a], tap[a]);
      inside = position >= 0 && position < plan.axes[a].output;
      offset = offset * plan.axes[a].output + position;
    }
    if (inside)
      for (int64_t i = begin, to = offset * last.output + first; i < end; ++i) plane[to + i * last.stride] += column[i];
    for (size_t a = outer_rank; a-- > 0 && ++at[a] == plan.axes[a].input;) at[a] = 0;
  }
}

// A few features of one image and group: a product into columns, then the columns are spread over the output. A column
// is one tap of one feature at every input position; only so many exist at a time that they stay small.
template <class T>
void RunFeatures(const OpContext& context, const TransposePlan& plan, const T* x, const T* w, int64_t features, T* y) {
  int64_t all = features * plan.counts.taps;
  int64_t block = std::clamp<int64_t>(kColumnElements / plan.counts.input, 1, all);
  std::vector<T> columns(static_cast<size_t>(block * plan.counts.input));
  std::vector<int64_t> tap(plan.axes.size());
  for (int64_t first = 0; first < all; first += block) {
    int64_t count = std::min(block, all - first);
    Gemm<T>({.m = count,
             .n = plan.counts.input,
             .k = plan.group_channels,
             .a = w + first,
             .a_row = 1,
             .a_col = plan.group_features * plan.counts.taps,
             .b = x,
             .b_row = plan.counts.input,
             .c = columns.data(),
             .c_row = plan.counts.input},
            context.services().pool);
    for (int64_t i = 0; i < count; ++i) {
      int64_t feature = (first + i) / plan.counts.taps;
      ScatterTap(plan, tap, columns.data() + i * plan.counts.input, y + feature * plan.counts.output);
      for (size_t a = tap.size(); a-- > 0 && ++tap[a] == plan.axes[a].kernel;) tap[a] = 0;
    }
  }
}

template <class T>
void RunTranspose(const OpContext& context, const TransposePlan& plan, const T* x, const T* w, const T* bias, T* y) {
  int64_t features = plan.group_features * plan.groups;
  WorkPoll poll;
  for (int64_t i = 0; i < plan.batch * features; ++i, poll(plan.counts.output))
    ForLookedParts(plan.counts.output, 1, [&](int64_t begin, int64_t end) {
      std::fill_n(y + i * plan.counts.output + begin, end - begin, bias ? bias[i % features] : T{0});
    });
  if (plan.group_features == 0 || plan.group_channels == 0 || plan.counts.input == 0) return;
  int64_t per_feature = CheckedProduct(plan.counts.taps, plan.counts.input);
  int64_t chunk = std::clamp<int64_t>(kColumnElements / per_feature, 1, plan.group_features);
  int64_t chunks = (plan.group_features + chunk - 1) / chunk;
  context.ParallelFor(plan.batch * plan.groups * chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t part = task / chunks, feature = task % chunks * chunk, group = part % plan.groups;
      RunFeatures<T>(context, plan, x + part * plan.group_channels * plan.counts.input,
                     w + (group * plan.group_channels * plan.group_features + feature) * plan.counts.taps,
                     std::min(chunk, plan.group_features - feature),
                     y + (part * plan.group_features + feature) * plan.counts.output);
    }
  });
}

void ComputeConvTranspose(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& w = context.Input(1);
  const Tensor* bias = context.OptionalInput(2);
  Require(x.dtype() == w.dtype(), "input is ", x.dtype(), ", weights are ", w.dtype());
  TransposePlan plan(context.node(), x.shape(), w.shape());
  if (bias) RequirePerChannel(bias->shape(), plan.output[1], "the bias");
  Tensor& y = context.Output(0, x.dtype(), plan.output);
  Tensor wide_x = WidenToFloat(x), wide_w = WidenToFloat(w), wide_bias = bias ? WidenToFloat(*bias) : Tensor();
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, plan.output) : y;
  Dispatch(FloatTypes{}, wide_x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    RunTranspose<T>(context, plan, wide_x.Data<T>(), wide_w.Data<T>(), bias ? wide_bias.Data<T>() : nullptr,
                    result.MutableData<T>());
  });
  NarrowInto(result, y);
}

void InferConvTranspose(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* w = context.InputShape(1);
  DType type = context.InputDType(0);
  std::optional<SymbolicShape> shape = InferTransposedConv(context.node(), x, w);
  if (!shape) return context.SetOutput(0, type);
  context.SetOutput(0, type, std::move(*shape));
}

}  // namespace

FERRY_OPERATOR(ConvTranspose, {.compute = ComputeConvTranspose, .infer = InferConvTranspose});

}  // namespace ferry

#include "ops/support/conv.h"

#include <optional>
#include <type_traits>

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// A plane with its padding: rows lie one behind the other, so that all that a tap adds is one long run. What lies
// between the rows of the result is left out in the end. For strides of 1.
template <class T>
class PaddedPlane {
 public:
  static bool Fits(const ConvPlan& plan) {
    constexpr int64_t kSmall = 1024;
    if (plan.axes.size() > 2) return false;
    for (const WindowAxis& axis : plan.axes)
      if (axis.stride != 1 || axis.pad_begin < 0 || axis.pad_end < 0) return false;
    // Far more padding than image is not worth the memory.
    const int64_t most = 4 * (plan.counts.input + plan.counts.output) + kSmall;
    return Padded(plan.axes.back()) <= most && Rows(plan) <= most / Padded(plan.axes.back());
  }

  explicit PaddedPlane(const ConvPlan& plan)
      : x_(plan.axes.back()),
        y_(plan.axes.size() > 1 ? plan.axes[0] : WindowAxis{.input = 1, .output = 1}),
        pitch_(Padded(x_)),
        padded_(static_cast<size_t>(Rows(plan) * pitch_)),
        sums_(static_cast<size_t>((y_.output - 1) * pitch_ + x_.output)) {}

  // `out` holds the bias everywhere.
  void Run(const T* plane, const T* kernel, T* out) {
    for (int64_t row = 0; row < y_.input; ++row)
      std::copy_n(plane + row * x_.input, x_.input, padded_.data() + (row + y_.pad_begin) * pitch_ + x_.pad_begin);
    std::fill(sums_.begin(), sums_.end(), out[0]);
    for (int64_t ky = 0; ky < y_.kernel; ++ky)
      for (int64_t kx = 0; kx < x_.kernel; ++kx)
        AddScaled(static_cast<int64_t>(sums_.size()), kernel[ky * x_.kernel + kx],
                  padded_.data() + ky * y_.dilation * pitch_ + kx * x_.dilation, sums_.data());
    for (int64_t row = 0; row < y_.output; ++row)
      std::copy_n(sums_.data() + row * pitch_, x_.output, out + row * x_.output);
  }

 private:
  static int64_t Padded(const WindowAxis& axis) { return axis.output + (axis.kernel - 1) * axis.dilation; }
  static int64_t Rows(const ConvPlan& plan) { return plan.axes.size() > 1 ? Padded(plan.axes[0]) : 1; }

  const WindowAxis x_, y_;
  const int64_t pitch_;
  std::vector<T> padded_, sums_;
};

template <class T>
void RunStridedPlane(const ConvPlan& plan, const T* plane, const T* kernel, T* out) {
  const WindowAxis& last = plan.axes.back();
  ForEachKernelRow(plan.axes, [&](int64_t row, int64_t first_tap, int64_t offset) {
    T* to = out + row * last.output;
    for (int64_t k = 0; k < last.kernel; ++k) {
      OutputRange valid = ValidOutputs(last, k);
      int64_t from = offset + last.Position(0, k);
      T weight = kernel[first_tap + k];
      if (valid.begin == valid.end) continue;
      if (last.stride == 1) {
        AddScaled(valid.end - valid.begin, weight, plane + from + valid.begin, to + valid.begin);
      } else {
        for (int64_t j = valid.begin; j < valid.end; ++j) to[j] += weight * plane[from + j * last.stride];
      }
    }
  });
}

// Every group has one input channel: each output plane is a few shifted copies of an input plane added up.
template <class T>
void RunDepthwise(const OpContext& context, const ConvPlan& plan, const T* x, const T* w, T* y) {
  const bool pads = PaddedPlane<T>::Fits(plan);
  int64_t work = std::max<int64_t>(plan.counts.output * plan.counts.taps, 1);
  context.ParallelFor(plan.batch * plan.features, 1 + 65536 / work, [&](int64_t begin, int64_t end) {
    std::optional<PaddedPlane<T>> padded;
    if (pads) padded.emplace(plan);
    for (int64_t i = begin; i < end; ++i) {
      const T* plane = x + i / plan.group_features * plan.counts.input;
      const T* kernel = w + i % plan.features * plan.counts.taps;
      T* out = y + i * plan.counts.output;
      if (padded)
        padded->Run(plane, kernel, out);
      else
        RunStridedPlane(plan, plane, kernel, out);
    }
  });
}

template <class T>
void RunPointwise(const OpContext& context, const ConvPlan& plan, const T* x, const T* w, T* y) {
  std::vector<GemmBatch> batches;
  for (int64_t image = 0; image < plan.batch; ++image)
    for (int64_t group = 0; group < plan.groups; ++group)
      batches.push_back({.a = group * plan.group_features * plan.group_channels,
                         .b = (image * plan.groups + group) * plan.group_channels * plan.counts.input});
  Gemm<T>({.m = plan.group_features,
           .n = plan.counts.output,
           .k = plan.group_channels,
           .a = w,
           .a_row = plan.group_channels,
           .b = x,
           .b_row = plan.counts.input,
           .c = y,
           .c_row = plan.counts.output,
           .c_batch = plan.group_features * plan.counts.output,
           .accumulate = true,
           .batches = batches},
          context.services().pool);
}

// One output pixel per image: the window is a vector, and the weights are read once in order.
template <class T>
void RunSinglePixel(const OpContext& context, const ConvPlan& plan, const PanelSource<T>& image, const T* w, T* y) {
  std::vector<T> column(static_cast<size_t>(plan.depth()));
  for (int64_t batch = 0; batch < plan.batch * plan.groups; ++batch) {
    image.Pack(batch, 0, plan.depth(), 0, 1, 1, column.data());
    Gemm<T>({.m = 1,
             .n = plan.group_features,
             .k = plan.depth(),
             .a = column.data(),
             .a_row = plan.depth(),
             .b = w + batch % plan.groups * plan.group_features * plan.depth(),
             .b_row = 1,
             .b_col = plan.depth(),
             .c = y + batch * plan.group_features,
             .accumulate = true},
            context.services().pool);
  }
}

template <class T>
void RunGeneral(const OpContext& context, const ConvPlan& plan, const PanelSource<T>& image, const T* w, T* y) {
  if constexpr (std::is_same_v<T, float>)
    if (plan.depth() <= kDeepestColumns) {
      std::vector<GemmBatch> batches;
      for (int64_t offset : plan.WeightOffsets()) batches.push_back({.a = offset});
      return GemmOfColumns({.m = plan.group_features,
                            .n = plan.counts.output,
                            .k = plan.depth(),
                            .a = w,
                            .a_row = plan.depth(),
                            .c = y,
                            .c_row = plan.counts.output,
                            .c_batch = plan.group_features * plan.counts.output,
                            .accumulate = true,
                            .batches = batches},
                           image, context.services().pool);
    }
  auto same = [](T value, int64_t, int64_t) { return value; };
  std::vector<int64_t> offsets = plan.WeightOffsets();
  StridedSource<T, T, decltype(same)> weights(w, plan.depth(), 1, offsets, same);
  PanelGemm<T>({.m = plan.group_features,
                .n = plan.counts.output,
                .k = plan.depth(),
                .batches = plan.batch * plan.groups,
                .a = &weights,
                .b = &image,
                .c = y,
                .c_row = plan.counts.output,
                .c_batch = plan.group_features * plan.counts.output,
                .accumulate = true},
               context.services().pool);
}

template <class T>
void RunConv(const OpContext& context, const ConvPlan& plan, const T* x, const T* w, const T* bias, T* y) {
  const int64_t planes_of_thread = 1 + 65536 / std::max<int64_t>(plan.counts.output, 1);
  context.ParallelFor(plan.batch * plan.features, planes_of_thread, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::fill_n(y + i * plan.counts.output, plan.counts.output, bias ? bias[i % plan.features] : T{0});
  });
  if (plan.output.ElementCount() == 0 || plan.depth() == 0) return;
  if (plan.group_channels == 1) return RunDepthwise(context, plan, x, w, y);
  auto same = [](T value) { return value; };
  ImageSource<T, T, decltype(same)> image(plan, x, same);
  if (plan.counts.output == 1)
    RunSinglePixel<T>(context, plan, image, w, y);
  else if (plan.is_pointwise())
    RunPointwise(context, plan, x, w, y);
  else
    RunGeneral<T>(context, plan, image, w, y);
}

void ComputeConv(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& w = context.Input(1);
  const Tensor* bias = context.OptionalInput(2);
  Require(x.dtype() == w.dtype(), "input is ", x.dtype(), ", weights are ", w.dtype());
  ConvPlan plan = PlanConv(context.node(), x.shape(), w.shape());
  if (bias) RequirePerChannel(bias->shape(), plan.features, "the bias");
  Tensor& y = context.Output(0, x.dtype(), plan.output);
  Tensor wide_x = WidenToFloat(x), wide_w = WidenToFloat(w), wide_bias = bias ? WidenToFloat(*bias) : Tensor();
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, plan.output) : y;
  Dispatch(FloatTypes{}, wide_x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    RunConv<T>(context, plan, wide_x.Data<T>(), wide_w.Data<T>(), bias ? wide_bias.Data<T>() : nullptr,
               result.MutableData<T>());
  });
  NarrowInto(result, y);
}

void InferConvolution(InferContext& context) { InferConv(context, 0, 1, context.InputDType(0)); }

}  // namespace

FERRY_OPERATOR(Conv, {.compute = ComputeConv, .infer = InferConvolution, .reads_anywhere = kInput1});

}  // namespace ferry

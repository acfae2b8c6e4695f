// Convolutions of 8-bit integers with 8-bit weights that have no zero point (ops/support/quantized_step.h). Inputs: x,
// w (int8, as Conv has it), factor [features], bias [features] or none. QuantizedConv has its channels first,
// QuantizedNhwcConv last; providers/cpu/quantized_conv.cc has the fast kernels, these are the plain ones.
#include "ops/operator.h"
#include "ops/support/conv.h"
#include "ops/support/fused.h"
#include "ops/support/nhwc.h"
#include "ops/support/quantized_step.h"

namespace ferry {
namespace {

void InferQuantizedConv(InferContext& context) { InferConv(context, 0, 1, QuantizedStep::Read(context.node()).y_type); }

void InferQuantizedNhwcConv(InferContext& context) {
  InferNhwcConv(context, QuantizedStep::Read(context.node()).y_type);
}

struct Window {
  const NhwcConvPlan& plan;
  const Tensor& x;
  const Tensor& w;
  int32_t x_zero;
  int64_t image;

  uint32_t Sum(int64_t pixel, int64_t feature) const {
    const ConvPlan& conv = plan.conv;
    int64_t first = image * conv.channels * conv.counts.input, group = feature / conv.group_features;
    uint32_t sum = 0;
    ForEachTap(plan.axes, pixel, [&](int64_t tap, int64_t from) {
      for (int64_t c = 0; c < conv.group_channels; ++c) {
        int64_t channel = group * conv.group_channels + c;
        int64_t at = plan.channels_first ? channel * conv.counts.input + from : from * conv.channels + channel;
        int32_t weight = w.Data<int8_t>()[feature * conv.depth() + c * conv.counts.taps + tap];
        sum += static_cast<uint32_t>((ByteAt(x, first + at) - x_zero) * weight);
      }
    });
    return sum;
  }

  // visit(tap, pixel of the input) for the taps that lie on the image.
  template <class Visit>
  static void ForEachTap(const std::array<WindowAxis, 3>& axes, int64_t pixel, const Visit& visit) {
    int64_t x = pixel % axes[2].output, y = pixel / axes[2].output % axes[1].output,
            z = pixel / axes[2].output / axes[1].output;
    int64_t taps = axes[0].kernel * axes[1].kernel * axes[2].kernel;
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t at_x = axes[2].Position(x, tap % axes[2].kernel);
      int64_t at_y = axes[1].Position(y, tap / axes[2].kernel % axes[1].kernel);
      int64_t at_z = axes[0].Position(z, tap / axes[2].kernel / axes[1].kernel);
      if (at_x >= 0 && at_x < axes[2].input && at_y >= 0 && at_y < axes[1].input && at_z >= 0 && at_z < axes[0].input)
        visit(tap, (at_z * axes[1].input + at_y) * axes[2].input + at_x);
    }
  }
};

void Compute(OpContext& context, const NhwcConvPlan& plan, bool last) {
  const Tensor& x = context.Input(0);
  const Tensor& w = context.Input(1);
  const ConvPlan& conv = plan.conv;
  QuantizedStep step = QuantizedStep::Read(context.node());
  Require(IsByte(x.dtype()) && w.dtype() == DType::kInt8, "x must be bytes and w int8");
  QuantizedColumns columns(step, context.Input(2), context.OptionalInput(3), conv.features);
  void* y = context.Output(0, step.y_type, last ? plan.output : conv.output).mutable_raw();
  for (int64_t image = 0; image < conv.batch; ++image) {
    Window window{plan, x, w, step.x_zero, image};
    context.ParallelFor(conv.counts.output, 1, [&](int64_t begin, int64_t end) {
      for (int64_t pixel = begin; pixel < end; ++pixel)
        for (int64_t feature = 0; feature < conv.features; ++feature) {
          int64_t place = last ? pixel * conv.features + feature : feature * conv.counts.output + pixel;
          columns.Store(window.Sum(pixel, feature), feature, image * conv.counts.output * conv.features + place, y);
        }
    });
  }
}

void ComputeQuantizedConv(OpContext& context) {
  NhwcConvPlan plan;
  plan.channels_first = true;
  plan.conv = PlanConv(context.node(), context.Input(0).shape(), context.Input(1).shape());
  plan.axes = ThreeAxes(plan.conv.axes);
  Compute(context, plan, false);
}

void ComputeQuantizedNhwcConv(OpContext& context) {
  Compute(context, PlanNhwcConv(context.node(), context.Input(0).shape(), context.Input(1).shape()), true);
}

}  // namespace

FERRY_OPERATOR_IN(internal, QuantizedConv, {.compute = ComputeQuantizedConv, .infer = InferQuantizedConv});
FERRY_OPERATOR_IN(internal, QuantizedNhwcConv, {.compute = ComputeQuantizedNhwcConv, .infer = InferQuantizedNhwcConv});

}  // namespace ferry

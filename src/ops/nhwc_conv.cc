// NhwcConv: activation(Conv(x, w) + bias + residual) over channels-last images, weights as Conv has them; x may be
// scaled first, see InputScaling. Made by passes/channels_last and fuse_conv; providers/cpu/conv.cc has the fast
// kernels, this is the plain one.
#include "kernels/nhwc.h"
#include "ops/operator.h"
#include "ops/support/fused.h"
#include "ops/support/nhwc.h"

namespace ferry {
namespace {

void InferFloatNhwcConv(InferContext& context) { InferNhwcConv(context, DType::kFloat); }

// Σ over taps and channels of one output element.
struct Window {
  const NhwcConvPlan& plan;
  const float* image;
  const float* w;

  float Sum(int64_t pixel, int64_t feature) const {
    const ConvPlan& conv = plan.conv;
    int64_t group = feature / conv.group_features;
    const float* weights = w + feature * conv.depth();
    const auto& axes = plan.axes;
    int64_t x = pixel % axes[2].output, y = pixel / axes[2].output % axes[1].output,
            z = pixel / axes[2].output / axes[1].output;
    float sum = 0;
    for (int64_t tap = 0; tap < conv.counts.taps; ++tap) {
      int64_t at_x = axes[2].Position(x, tap % axes[2].kernel);
      int64_t at_y = axes[1].Position(y, tap / axes[2].kernel % axes[1].kernel);
      int64_t at_z = axes[0].Position(z, tap / axes[2].kernel / axes[1].kernel);
      if (at_x < 0 || at_x >= axes[2].input || at_y < 0 || at_y >= axes[1].input || at_z < 0 || at_z >= axes[0].input)
        continue;
      int64_t from = (at_z * axes[1].input + at_y) * axes[2].input + at_x;
      for (int64_t c = 0; c < conv.group_channels; ++c) {
        int64_t channel = group * conv.group_channels + c;
        float value =
            plan.channels_first ? image[channel * conv.counts.input + from] : image[from * conv.channels + channel];
        sum += value * weights[c * conv.counts.taps + tap];
      }
    }
    return sum;
  }
};

void ComputeNhwcConv(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& w = context.Input(1);
  NhwcConvPlan plan = PlanNhwcConv(context.node(), x.shape(), w.shape());
  const ConvPlan& conv = plan.conv;
  const Tensor* bias = context.OptionalInput(2);
  const Tensor* residual = context.OptionalInput(3);
  if (bias) RequirePerChannel(bias->shape(), conv.features, "the bias");
  if (residual)
    Require(residual->shape() == plan.output, "residual of shape ", residual->shape(), " does not fit ", plan.output);
  const InputScaling scaling = InputScalingOf(context, conv.channels, ActivationBefore(context.node()));
  std::vector<float> scaled(scaling.factor ? static_cast<size_t>(x.size()) : 0);
  if (!scaled.empty())
    BestNhwcKernels().affine(x.Data<float>(), conv.channels, x.size() / conv.channels, conv.channels, scaling.factor,
                             scaling.offset, scaling.before, scaled.data());
  const float* images = scaling.factor ? scaled.data() : x.Data<float>();
  const float* added = residual ? residual->Data<float>() : nullptr;
  float* y = context.Output(0, DType::kFloat, plan.output).MutableData<float>();
  for (int64_t image = 0; image < conv.batch; ++image) {
    Window window{plan, images + image * conv.channels * conv.counts.input, w.Data<float>()};
    context.ParallelFor(conv.counts.output, 1, [&](int64_t first, int64_t last) {
      for (int64_t pixel = first; pixel < last; ++pixel)
        for (int64_t feature = 0; feature < conv.features; ++feature) {
          int64_t at = (image * conv.counts.output + pixel) * conv.features + feature;
          y[at] = window.Sum(pixel, feature) + (bias ? bias->Data<float>()[feature] : 0) + (added ? added[at] : 0);
        }
    });
  }
  BestNhwcKernels().activate(ActivationOf(context.node()), y, plan.output.ElementCount());
}

}  // namespace

FERRY_OPERATOR_IN(internal, NhwcConv,
                  {.compute = ComputeNhwcConv,
                   .infer = InferFloatNhwcConv,
                   .in_place = 1u << 3,  // the residual
                   .reads_anywhere = kInput1,
                   .per_image = true});

}  // namespace ferry

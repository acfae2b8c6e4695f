// NhwcConvTranspose: activation(ConvTranspose(x, w) + bias) over channels-last images, weights as ConvTranspose has
// them. Made by passes/channels_last; providers/cpu/conv_transpose.cc has the fast kernel, this is the plain one.
#include "kernels/nhwc.h"
#include "ops/operator.h"
#include "ops/support/conv_transpose.h"
#include "ops/support/fused.h"
#include "ops/support/nhwc.h"

namespace ferry {
namespace {

void InferNhwcConvTranspose(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x || x->size() < 3) return context.SetOutput(0, DType::kFloat);
  SymbolicShape image = ToChannelsFirst(*x);
  context.SetOutput(0, DType::kFloat,
                    ToChannelsLast(*InferTransposedConv(context.node(), &image, context.InputShape(1))));
}

// The input that a tap brings to an output; -1 when there is none.
int64_t Source(const WindowAxis& axis, int64_t output, int64_t tap) {
  int64_t at = output + axis.pad_begin - tap * axis.dilation;
  return at >= 0 && at % axis.stride == 0 && at / axis.stride < axis.input ? at / axis.stride : -1;
}

struct Sums {
  const TransposePlan& plan;
  const std::array<WindowAxis, 3>& axes;
  const float* image;
  const float* w;

  float Sum(int64_t pixel, int64_t feature) const {
    int64_t x = pixel % axes[2].output, y = pixel / axes[2].output % axes[1].output,
            z = pixel / axes[2].output / axes[1].output;
    int64_t group = feature / plan.group_features, column = feature % plan.group_features;
    float sum = 0;
    for (int64_t tap = 0; tap < plan.counts.taps; ++tap) {
      int64_t at_x = Source(axes[2], x, tap % axes[2].kernel);
      int64_t at_y = Source(axes[1], y, tap / axes[2].kernel % axes[1].kernel);
      int64_t at_z = Source(axes[0], z, tap / axes[2].kernel / axes[1].kernel);
      if (at_x < 0 || at_y < 0 || at_z < 0) continue;
      const float* from = image + ((at_z * axes[1].input + at_y) * axes[2].input + at_x) * plan.channels;
      for (int64_t c = group * plan.group_channels; c < (group + 1) * plan.group_channels; ++c)
        sum += from[c] * w[(c * plan.group_features + column) * plan.counts.taps + tap];
    }
    return sum;
  }
};

void ComputeNhwcConvTranspose(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& w = context.Input(1);
  const Tensor* bias = context.OptionalInput(2);
  Require(x.rank() >= 3, "the input needs a batch, spatial axes and channels, its shape is ", x.shape());
  TransposePlan plan(context.node(), ToChannelsFirst(x.shape()), w.shape());
  std::array<WindowAxis, 3> axes = ThreeAxes(plan.axes);
  int64_t features = plan.output[1];
  if (bias) RequirePerChannel(bias->shape(), features, "the bias");
  Tensor& y = context.Output(0, DType::kFloat, ToChannelsLast(plan.output));
  float* to = y.MutableData<float>();
  for (int64_t image = 0; image < plan.batch; ++image) {
    Sums sums{plan, axes, x.Data<float>() + image * plan.channels * plan.counts.input, w.Data<float>()};
    for (int64_t pixel = 0; pixel < plan.counts.output; ++pixel)
      for (int64_t feature = 0; feature < features; ++feature)
        *to++ = sums.Sum(pixel, feature) + (bias ? bias->Data<float>()[feature] : 0);
  }
  BestNhwcKernels().activate(ActivationOf(context.node()), y.MutableData<float>(), y.size());
}

}  // namespace

FERRY_OPERATOR_IN(internal, NhwcConvTranspose,
                  {.compute = ComputeNhwcConvTranspose, .infer = InferNhwcConvTranspose, .per_image = true});

}  // namespace ferry

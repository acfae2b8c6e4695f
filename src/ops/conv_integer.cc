#include <cmath>

#include "ops/operator.h"
#include "ops/support/conv.h"
#include "ops/support/dispatch.h"
#include "ops/support/quantized.h"

namespace ferry {
namespace {

// Products of values without their zero points, summed in 32 bits that wrap.
void IntegerConv(const OpContext& context, const ConvPlan& plan, const Tensor& x, int32_t x_zero, const Tensor& w,
                 const std::vector<int32_t>& w_zeros, Tensor& sums) {
  std::vector<int64_t> offsets = plan.WeightOffsets();
  DispatchBytes(x.dtype(), [&](auto x_tag) {
    using X = typename decltype(x_tag)::type;
    DispatchBytes(w.dtype(), [&](auto w_tag) {
      using W = typename decltype(w_tag)::type;
      auto from_x = [x_zero](X value) { return static_cast<uint32_t>(int32_t{value} - x_zero); };
      auto from_w = [&](W value, int64_t batch, int64_t feature) {
        size_t at = static_cast<size_t>(batch % plan.groups * plan.group_features + feature);
        return static_cast<uint32_t>(int32_t{value} - w_zeros[w_zeros.size() == 1 ? 0 : at]);
      };
      ImageSource<uint32_t, X, decltype(from_x)> image(plan, x.Data<X>(), from_x);
      StridedSource<uint32_t, W, decltype(from_w)> weights(w.Data<W>(), plan.depth(), 1, offsets, from_w);
      PanelGemm<uint32_t>({.m = plan.group_features,
                           .n = plan.counts.output,
                           .k = plan.depth(),
                           .batches = plan.batch * plan.groups,
                           .a = &weights,
                           .b = &image,
                           .c = reinterpret_cast<uint32_t*>(sums.MutableData<int32_t>()),
                           .c_row = plan.counts.output,
                           .c_batch = plan.group_features * plan.counts.output},
                          context.services().pool);
    });
  });
}

int32_t SingleZeroPoint(const Tensor* zero, const char* what) {
  if (!zero) return 0;
  Require(zero->size() == 1, what, " must be a scalar, has shape ", zero->shape());
  return ZeroPoints(zero, zero->dtype())[0];
}

std::vector<int32_t> ChannelZeroPoints(const Tensor* zero, const Tensor& w) {
  std::vector<int32_t> zeros = ZeroPoints(zero, w.dtype());
  Require(zeros.size() == 1 || (zero->rank() == 1 && zero->dim(0) == w.dim(0)),
          "the weights' zero point must be a scalar or have shape [", w.dim(0), "]");
  return zeros;
}

void ComputeConvInteger(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& w = context.Input(1);
  ConvPlan plan = PlanConv(context.node(), x.shape(), w.shape());
  int32_t x_zero = SingleZeroPoint(context.OptionalInput(2), "x_zero_point");
  std::vector<int32_t> w_zeros = ChannelZeroPoints(context.OptionalInput(3), w);
  IntegerConv(context, plan, x, x_zero, w, w_zeros, context.Output(0, DType::kInt32, plan.output));
}

void ComputeQLinearConv(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& w = context.Input(3);
  ConvPlan plan = PlanConv(context.node(), x.shape(), w.shape());
  const Tensor& x_scale = context.Input(1);
  const Tensor& w_scale = context.Input(4);
  const Tensor& y_scale = context.Input(6);
  const Tensor& y_zero = context.Input(7);
  Require(x_scale.size() == 1 && y_scale.size() == 1, "x_scale and y_scale must be scalars, have shapes ",
          x_scale.shape(), " and ", y_scale.shape());
  Require(w_scale.size() == 1 || (w_scale.rank() == 1 && w_scale.dim(0) == plan.features),
          "w_scale must be a scalar or have shape [", plan.features, "], has ", w_scale.shape());
  const Tensor* bias = context.OptionalInput(8);
  if (bias) RequirePerChannel(bias->shape(), plan.features, "the bias");

  Tensor sums(DType::kInt32, plan.output);
  IntegerConv(context, plan, x, SingleZeroPoint(&context.Input(2), "x_zero_point"), w,
              ChannelZeroPoints(&context.Input(5), w), sums);
  int32_t zero = SingleZeroPoint(&y_zero, "y_zero_point");
  Tensor& y = context.Output(0, y_zero.dtype(), plan.output);
  const int32_t* from = sums.Data<int32_t>();
  const float* w_scales = w_scale.Data<float>();
  const int32_t* biases = bias ? bias->Data<int32_t>() : nullptr;
  float per_input = x_scale.Data<float>()[0];
  float y_step = y_scale.Data<float>()[0];
  DispatchBytes(y.dtype(), [&](auto tag) {
    using Y = typename decltype(tag)::type;
    Y* to = y.MutableData<Y>();
    context.ParallelFor(plan.batch * plan.features, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t feature = i % plan.features;
        float scale = per_input * w_scales[w_scale.size() == 1 ? 0 : feature] / y_step;
        uint32_t add = biases ? static_cast<uint32_t>(biases[feature]) : 0;
        for (int64_t p = i * plan.counts.output; p < (i + 1) * plan.counts.output; ++p)
          to[p] = Requantize<Y>(static_cast<int32_t>(static_cast<uint32_t>(from[p]) + add), scale, zero);
      }
    });
  });
}

void InferConvInteger(InferContext& context) { InferConv(context, 0, 1, DType::kInt32); }
void InferQLinearConv(InferContext& context) { InferConv(context, 0, 3, context.InputDType(7)); }

}  // namespace

FERRY_OPERATOR(ConvInteger, {.compute = ComputeConvInteger, .infer = InferConvInteger});
FERRY_OPERATOR(QLinearConv, {.compute = ComputeQLinearConv, .infer = InferQLinearConv});

}  // namespace ferry

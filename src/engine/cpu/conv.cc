#include "engine/cpu/conv.h"

#include "engine/cpu/kernels.h"
#include "ops/support/fused.h"

namespace ferry {
namespace {

class ImageConv final : public Kernel {
 public:
  ImageConv(std::unique_ptr<ConvAlgorithm> algorithm, Shape expected, ImageConvPlan plan, Shape weights,
            Activation activation)
      : algorithm_(std::move(algorithm)),
        expected_(std::move(expected)),
        plan_(std::move(plan)),
        weights_(std::move(weights)),
        activation_(activation) {}

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    if (x.shape() == expected_) return RunPlanned(context, x, plan_);
    RunPlanned(context, x, PlanImageConv(context.node(), x.shape(), weights_));
  }

 private:
  void RunPlanned(OpContext& context, const Tensor& x, const ImageConvPlan& plan) const {
    const Tensor* bias = context.OptionalInput(2);
    const Tensor* residual = context.OptionalInput(3);
    if (bias) RequirePerChannel(bias->shape(), plan.conv.features, "the bias");
    if (residual)
      Require(residual->shape() == plan.output, "residual of shape ", residual->shape(), " does not fit ", plan.output);
    Tensor& y = context.Output(0, DType::kFloat, plan.output);
    if (y.size() == 0) return;
    algorithm_->Run({context, plan, x.Data<float>(), bias ? bias->Data<float>() : nullptr,
                     residual ? residual->Data<float>() : nullptr, y.MutableData<float>(), activation_});
  }

  std::unique_ptr<ConvAlgorithm> algorithm_;
  Shape expected_;
  ImageConvPlan plan_;
  Shape weights_;
  Activation activation_;
};

// Winograd's algorithm saves multiplications but reads more weights: with few tiles to share them the smaller tile
// wins.
std::unique_ptr<ConvAlgorithm> Choose(const Tensor& weight, const ImageConvPlan& plan, WeightCache& cache) {
  const ConvPlan& conv = plan.conv;
  if (conv.group_channels == 1 && conv.group_features == 1 && plan.axes[0].kernel == 1 && plan.axes[0].input == 1)
    return MakeDepthwiseConv(weight, plan, cache);
  if (FitsWinograd(plan) && conv.channels >= 16 && conv.features >= 16 && conv.counts.output >= 16) {
    bool large = conv.counts.output >= 100;
    return MakeWinogradConv(weight, plan, large ? 4 : 2, cache);
  }
  return MakeGemmConv(weight, plan, cache);
}

}  // namespace

std::unique_ptr<Kernel> MakeConvKernel(const KernelRequest& request) {
  if (request.node.op_type != "ImageConv" || request.node.domain != kInternalDomain) return nullptr;
  if (request.inputs.size() < 2 || !request.inputs[0] || !request.inputs[1]) return nullptr;
  const std::optional<Tensor>& weight = request.inputs[1]->constant;
  const Type& type = request.inputs[0]->type;
  std::optional<Shape> shape = type.shape ? ToConcrete(*type.shape) : std::nullopt;
  if (!weight || weight->dtype() != DType::kFloat || weight->size() == 0 || type.dtype != DType::kFloat || !shape)
    return nullptr;
  // A contradiction is told when the node runs, where inputs are known.
  try {
    ImageConvPlan plan = PlanImageConv(request.node, *shape, weight->shape());
    if (plan.conv.counts.output == 0) return nullptr;
    std::unique_ptr<ConvAlgorithm> algorithm = Choose(*weight, plan, request.weights);
    return std::make_unique<ImageConv>(std::move(algorithm), *shape, std::move(plan), weight->shape(),
                                       ActivationOf(request.node));
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace ferry

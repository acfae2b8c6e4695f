#include "engine/cpu/conv.h"

#include <mutex>

#include "engine/cpu/kernels.h"
#include "ops/support/fused.h"

namespace ferry {
namespace {

// Winograd's algorithm saves multiplications but reads more weights: with few tiles to share them the smaller tile
// wins.
std::unique_ptr<ConvAlgorithm> Choose(const Tensor& weight, const ImageConvPlan& plan, WeightCache& cache) {
  const ConvPlan& conv = plan.conv;
  if (conv.group_channels == 1 && conv.group_features == 1 && plan.axes[0].kernel == 1 && plan.axes[0].input == 1)
    return MakeDepthwiseConv(weight, plan, cache);
  if (FitsGrouped(plan) && conv.group_channels <= 32) return MakeGroupedConv(weight, plan, cache);
  if (FitsWinograd(plan) && conv.channels >= 16 && conv.features >= 16 && conv.counts.output >= 16) {
    bool large = conv.counts.output >= 100;
    return MakeWinogradConv(weight, plan, large ? 4 : 2, cache);
  }
  return MakeGemmConv(weight, plan, cache);
}

// Everything that depends on the shape of the input.
struct PreparedConv {
  PreparedConv(const Node& node, const Shape& shape, const Tensor& weight, WeightCache& cache)
      : shape(shape), plan(PlanImageConv(node, shape, weight.shape())) {
    if (plan.conv.counts.output > 0) algorithm = Choose(weight, plan, cache);
  }
  Shape shape;
  ImageConvPlan plan;
  std::unique_ptr<ConvAlgorithm> algorithm;
};

class ImageConv final : public Kernel {
 public:
  ImageConv(Tensor weight, Activation activation, WeightCache& cache)
      : weight_(std::move(weight)), activation_(activation), cache_(cache) {}

  void Expect(const Node& node, const Shape& shape) {
    expected_ = std::make_shared<const PreparedConv>(node, shape, weight_, cache_);
  }

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    if (expected_ && x.shape() == expected_->shape) return RunPrepared(context, x, *expected_);
    RunPrepared(context, x, *Unexpected(context.node(), x.shape()));
  }

 private:
  // Shapes that are known only while running; the last one is remembered.
  std::shared_ptr<const PreparedConv> Unexpected(const Node& node, const Shape& shape) const {
    std::lock_guard lock(mutex_);
    if (!latest_ || !(latest_->shape == shape))
      latest_ = std::make_shared<const PreparedConv>(node, shape, weight_, cache_);
    return latest_;
  }

  void RunPrepared(OpContext& context, const Tensor& x, const PreparedConv& prepared) const {
    const ImageConvPlan& plan = prepared.plan;
    const Tensor* bias = context.OptionalInput(2);
    const Tensor* residual = context.OptionalInput(3);
    if (bias) RequirePerChannel(bias->shape(), plan.conv.features, "the bias");
    if (residual)
      Require(residual->shape() == plan.output, "residual of shape ", residual->shape(), " does not fit ", plan.output);
    Tensor& y = context.Output(0, DType::kFloat, plan.output);
    if (y.size() == 0) return;
    prepared.algorithm->Run({context, plan, x.Data<float>(), bias ? bias->Data<float>() : nullptr,
                             residual ? residual->Data<float>() : nullptr, y.MutableData<float>(), activation_});
  }

  Tensor weight_;
  Activation activation_;
  WeightCache& cache_;
  std::shared_ptr<const PreparedConv> expected_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const PreparedConv> latest_;
};

}  // namespace

std::unique_ptr<Kernel> MakeConvKernel(const KernelRequest& request) {
  if (request.node.op_type != "ImageConv" || request.node.domain != kInternalDomain) return nullptr;
  if (request.inputs.size() < 2 || !request.inputs[0] || !request.inputs[1]) return nullptr;
  const std::optional<Tensor>& weight = request.inputs[1]->constant;
  const Type& type = request.inputs[0]->type;
  if (!weight || weight->dtype() != DType::kFloat || weight->size() == 0 || type.dtype != DType::kFloat) return nullptr;
  auto kernel = std::make_unique<ImageConv>(*weight, ActivationOf(request.node), request.weights);
  std::optional<Shape> shape = type.shape ? ToConcrete(*type.shape) : std::nullopt;
  try {
    if (shape) kernel->Expect(request.node, *shape);
  } catch (const Error&) {
    return nullptr;  // told again when the node runs, where more is known
  }
  return kernel;
}

}  // namespace ferry

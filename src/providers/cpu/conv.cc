#include "providers/cpu/conv.h"

#include <mutex>

#include "kernels/nhwc.h"
#include "ops/support/fused.h"
#include "providers/cpu/kernels.h"
#include "providers/cpu/scratch.h"
#include "providers/cpu/tuner.h"

namespace ferry {
namespace {

// One of the ways to compute a convolution; the first that fits is what the model of the costs takes.
struct Way {
  const char* name;
  std::unique_ptr<ConvAlgorithm> (*make)(const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache);
};

constexpr Way kGemm = {"gemm", MakeGemmConv}, kDepthwise = {"depthwise", MakeDepthwiseConv},
              kGrouped = {"grouped", MakeGroupedConv}, kPlanar = {"planar", MakePlanarConv},
              kBf16Gemm = {"bf16 gemm", MakeBf16GemmConv};
constexpr Way kWinograd2 = {"winograd 2", [](const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache) {
                              return MakeWinogradConv(weight, plan, 2, cache);
                            }};
constexpr Way kWinograd4 = {"winograd 4", [](const Tensor& weight, const NhwcConvPlan& plan, WeightCache& cache) {
                              return MakeWinogradConv(weight, plan, 4, cache);
                            }};

std::vector<Way> WaysFor(const NhwcConvPlan& plan, bool exact) {
  const ConvPlan& conv = plan.conv;
  if (conv.group_channels == 1 && conv.group_features == 1 && plan.axes[0].kernel == 1 && plan.axes[0].input == 1)
    return {kDepthwise};
  if (FitsGrouped(plan)) return conv.group_channels <= 32 ? std::vector{kGrouped, kGemm} : std::vector{kGemm, kGrouped};
  if (FitsPlanar(plan)) return {kPlanar, kGemm};
  if (exact || !FitsWinograd(plan)) return {kGemm};
  // Winograd's algorithm saves multiplications but reads more weights: with few tiles to share them the smaller tile
  // wins.
  if (conv.channels < 16 || conv.features < 16 || conv.counts.output < 16) return {kGemm, kWinograd2, kWinograd4};
  if (conv.counts.output < 100) return {kWinograd2, kGemm, kWinograd4};
  return {kWinograd4, kWinograd2, kGemm};
}

// Winograd's algorithm and the kernels of few channels stay in float32: they are as fast and more precise.
std::vector<Way> WaysFor(const NhwcConvPlan& plan, const KernelPolicy& policy) {
  std::vector<Way> ways = WaysFor(plan, policy.exact);
  if (policy.precision == Precision::kBf16 && FitsBf16Gemm(plan))
    for (Way& way : ways)
      if (way.make == kGemm.make) way = kBf16Gemm;
  return ways;
}

std::string ProblemName(const NhwcConvPlan& plan, Precision precision) {
  const ConvPlan& conv = plan.conv;
  std::string name = Cat(precision == Precision::kBf16 ? "bf16 conv " : "conv ", conv.batch, "x", conv.channels, "->",
                         conv.features, "/", conv.groups);
  for (const WindowAxis& axis : plan.axes)
    name += Cat(" ", axis.input, "k", axis.kernel, "s", axis.stride, "d", axis.dilation, "p", axis.pad_begin, "-",
                axis.pad_end);
  return name;
}

// Runs every way on made-up numbers, on this thread, with packed weights that are thrown away again.
const Way& Fastest(const std::vector<Way>& ways, const Node& node, const Tensor& weight, const NhwcConvPlan& plan,
                   const KernelPolicy& policy) {
  const ConvPlan& conv = plan.conv;
  std::vector<float> x(static_cast<size_t>(conv.batch * conv.channels * conv.counts.input), 0.5f);
  std::vector<float> y(static_cast<size_t>(conv.batch * conv.features * conv.counts.output));
  WeightCache thrown_away;
  RunServices services;
  OpContext context(node, {}, {}, services);
  std::vector<std::unique_ptr<ConvAlgorithm>> made(ways.size());
  std::vector<Tuner::Candidate> candidates;
  for (size_t i = 0; i < ways.size(); ++i)
    candidates.push_back(
        {ways[i].name, [&, i] {
           if (!made[i]) made[i] = ways[i].make(weight, plan, thrown_away);
           made[i]->Run({context, plan, x.data(), nullptr, nullptr, y.data(), {}, conv.channels, conv.features});
         }});
  std::string name = policy.tuner->Choose(ProblemName(plan, policy.precision), candidates);
  for (const Way& way : ways)
    if (name == way.name) return way;
  return ways[0];
}

Way Choose(const Node& node, const Tensor& weight, const NhwcConvPlan& plan, const KernelPolicy& policy) {
  std::vector<Way> ways = WaysFor(plan, policy);
  bool measure = policy.tuner && ways.size() > 1;
  return measure ? Fastest(ways, node, weight, plan, policy) : ways[0];
}

// Everything that depends on the shape of the input.
struct PreparedConv {
  PreparedConv(const Node& node, const Shape& shape, const Tensor& weight, WeightCache& cache,
               const KernelPolicy& policy)
      : shape(shape), plan(PlanNhwcConv(node, shape, weight.shape())) {
    if (plan.conv.counts.output == 0) return;
    const Way way = Choose(node, weight, plan, policy);
    name = way.name;
    algorithm = way.make(weight, plan, cache);
  }
  Shape shape;
  NhwcConvPlan plan;
  std::string_view name = "nothing";
  std::unique_ptr<ConvAlgorithm> algorithm;
};

class NhwcConv final : public CpuKernel {
 public:
  std::string name() const override { return std::string(expected_ ? expected_->name : "chosen while running"); }
  NhwcConv(const Node& node, Tensor weight, WeightCache& cache, const KernelPolicy& policy)
      : weight_(std::move(weight)),
        activation_(ActivationOf(node)),
        before_(ActivationBefore(node)),
        cache_(cache),
        policy_{policy.exact, nullptr, policy.precision} {}

  void Expect(const Node& node, const Shape& shape, const KernelPolicy& policy) {
    expected_ = std::make_shared<const PreparedConv>(node, shape, weight_, cache_, policy);
  }

  void Run(OpContext& context) const override {
    const Tensor& x = context.Input(0);
    if (expected_ && x.shape() == expected_->shape) return RunPrepared(context, x, *expected_);
    RunPrepared(context, x, *Unexpected(context.node(), x.shape()));
  }

  bool ReadsStrided(size_t input) const override { return input == 0 && algorithm() && algorithm()->ReadsStrided(); }
  bool WritesStrided() const override { return algorithm() && algorithm()->WritesStrided(); }
  bool Packs(size_t input) const override { return input == 1 && algorithm() && algorithm()->Packs(); }

 private:
  const ConvAlgorithm* algorithm() const { return expected_ ? expected_->algorithm.get() : nullptr; }

  // Shapes that are known only while running; the last one is remembered.
  std::shared_ptr<const PreparedConv> Unexpected(const Node& node, const Shape& shape) const {
    std::lock_guard lock(mutex_);
    if (!latest_ || !(latest_->shape == shape)) {
      cache_.PutBack();
      latest_ = std::make_shared<const PreparedConv>(node, shape, weight_, cache_, policy_);
    }
    return latest_;
  }

  void RunPrepared(OpContext& context, const Tensor& x, const PreparedConv& prepared) const {
    const NhwcConvPlan& plan = prepared.plan;
    const Tensor* bias = context.OptionalInput(2);
    const Tensor* residual = context.OptionalInput(3);
    if (bias) RequirePerChannel(bias->shape(), plan.conv.features, "the bias");
    if (residual)
      Require(residual->shape() == plan.output, "residual of shape ", residual->shape(), " does not fit ", plan.output);
    Tensor& y = context.Output(0, DType::kFloat, plan.output);
    if (y.size() == 0) return;
    const int64_t x_stride = plan.channels_first ? plan.conv.channels : rows_.InputStride(0, x);
    const int64_t y_stride = rows_.output.StrideOf(y);
    if (y_stride != plan.conv.features && !prepared.algorithm->WritesStrided())
      Fail(ErrorCode::kInternal, "an input of shape ", x.shape(), " was not expected");
    ConvCall call{context,
                  plan,
                  x.Data<float>(),
                  bias ? bias->Data<float>() : nullptr,
                  residual ? residual->Data<float>() : nullptr,
                  y.MutableData<float>(),
                  activation_,
                  x_stride,
                  y_stride,
                  InputScalingOf(context, plan.conv.channels, before_)};
    prepared.algorithm->Run(prepared.algorithm->Scales() ? call : ScaledFirst(call));
  }

  Tensor weight_;
  Activation activation_, before_;
  WeightCache& cache_;
  const KernelPolicy policy_;  // while running nothing is measured
  std::shared_ptr<const PreparedConv> expected_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const PreparedConv> latest_;
};

}  // namespace

ConvCall ScaledFirst(const ConvCall& call) {
  if (!call.scaling.factor) return call;
  const InputScaling& scaling = call.scaling;
  const int64_t channels = call.plan.conv.channels, pixels = call.plan.conv.batch * call.plan.conv.counts.input;
  float* scaled = ThreadScratch<float>(ScratchUse::kScaledRows, pixels * channels);
  call.context.ParallelFor(pixels, 1 + 16384 / channels, [&](int64_t begin, int64_t end) {
    BestNhwcKernels().affine(call.x + begin * call.x_stride, call.x_stride, end - begin, channels, scaling.factor,
                             scaling.offset, scaling.before, scaled + begin * channels);
  });
  return {call.context, call.plan, scaled, call.bias, call.residual, call.y, call.activation, channels, call.y_stride};
}

std::unique_ptr<CpuKernel> MakeConvKernel(const CpuKernelRequest& request) {
  if (request.node.op_type != "NhwcConv" || request.node.domain != kInternalDomain) return nullptr;
  if (request.inputs.size() < 2 || !request.inputs[0] || !request.inputs[1]) return nullptr;
  const std::optional<Tensor>& weight = request.inputs[1]->constant;
  const Type& type = request.inputs[0]->type;
  if (!weight || weight->dtype() != DType::kFloat || weight->size() == 0 || type.dtype != DType::kFloat) return nullptr;
  auto kernel = std::make_unique<NhwcConv>(request.node, *weight, request.weights, request.policy);
  std::optional<Shape> shape = type.shape ? ToConcrete(*type.shape) : std::nullopt;
  try {
    if (shape) kernel->Expect(request.node, *shape, request.policy);
  } catch (const Error&) {
    return nullptr;  // told again when the node runs, where more is known
  }
  return kernel;
}

}  // namespace ferry

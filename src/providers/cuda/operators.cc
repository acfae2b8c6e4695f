#include "providers/cuda/operators.h"

#include "ops/support/cast_tensor.h"
#include "ops/support/fused.h"

namespace ferry::cuda {
namespace {

class DeviceKernel final : public Kernel {
 public:
  DeviceKernel(const Device* device, RunOnDevice run) : device_(device), run_(std::move(run)) {}
  void Run(OpContext& context) const override { run_(*device_, context); }

 private:
  const Device* device_;
  RunOnDevice run_;
};

DType TypeIn(std::span<const ValueFacts* const> facts, size_t i) {
  return i < facts.size() && facts[i] && facts[i]->type.is_tensor() ? facts[i]->type.dtype : DType::kUndefined;
}

std::optional<Shape> ShapeIn(std::span<const ValueFacts* const> facts, size_t i) {
  if (i >= facts.size() || !facts[i] || !facts[i]->type.is_tensor() || !facts[i]->type.shape) return std::nullopt;
  return ToConcrete(*facts[i]->type.shape);
}

}  // namespace

DType OperatorRequest::TypeOf(size_t i) const { return TypeIn(request.inputs, i); }
DType OperatorRequest::ResultType(size_t i) const { return TypeIn(request.outputs, i); }
std::optional<Shape> OperatorRequest::ShapeOf(size_t i) const { return ShapeIn(request.inputs, i); }
std::optional<Shape> OperatorRequest::ResultShape(size_t i) const { return ShapeIn(request.outputs, i); }

const Tensor* OperatorRequest::Constant(size_t i) const {
  return i < request.inputs.size() && request.inputs[i] && request.inputs[i]->constant ? &*request.inputs[i]->constant
                                                                                       : nullptr;
}

bool OperatorRequest::WantsOnly(size_t outputs) const {
  for (size_t i = outputs; i < request.node.outputs.size(); ++i)
    if (request.node.HasOutput(i)) return false;
  return true;
}

bool OperatorRequest::Is(std::string_view op) const {
  return request.node.op_type == op && CanonicalDomain(request.node.domain).empty();
}

bool OperatorRequest::IsInternal(std::string_view op) const {
  return request.node.op_type == op && request.node.domain == kInternalDomain;
}

ChosenKernel OnDevice(const OperatorRequest& request, std::string name, RunOnDevice run, uint32_t reads_on_host,
                      uint32_t reads_anywhere) {
  ChosenKernel chosen;
  chosen.plan.name = std::move(name);
  chosen.plan.reads_on_host = reads_on_host;
  chosen.plan.reads_anywhere = reads_anywhere;
  chosen.plan.is_recordable = true;
  if (request.settings.device) chosen.kernel = std::make_unique<DeviceKernel>(request.settings.device, std::move(run));
  return chosen;
}

int AddActivation(Chain& chain, int value, const Activation& activation, bool rounds) {
  Node node;
  const DType type = chain.type(value);
  std::vector<int> arguments{value};
  switch (activation.kind) {
    case ActivationKind::kNone: return value;
    case ActivationKind::kRelu: node.op_type = "Relu"; break;
    case ActivationKind::kSigmoid: node.op_type = "Sigmoid"; break;
    case ActivationKind::kHardSwish: node.op_type = "HardSwish"; break;
    case ActivationKind::kTanh: node.op_type = "Tanh"; break;
    case ActivationKind::kGelu:
      node.op_type = "Gelu";
      if (rounds && type == DType::kFloat) node.Set("rounds", int64_t{1});
      break;
    case ActivationKind::kGeluTanh:
      node.op_type = "Gelu";
      node.Set("approximate", std::string("tanh"));
      break;
    case ActivationKind::kLeakyRelu:
      node.op_type = "LeakyRelu";
      node.Set("alpha", activation.alpha);
      break;
    case ActivationKind::kSilu:
      node.op_type = "Swish";
      node.Set("alpha", activation.alpha);
      break;
    case ActivationKind::kHardSigmoid:
      node.op_type = "HardSigmoid";
      node.Set("alpha", activation.alpha);
      node.Set("beta", activation.beta);
      break;
    case ActivationKind::kClip:
      node.op_type = "Clip";
      for (float bound : {activation.alpha, activation.beta})
        arguments.push_back(chain.AddConstant(CastTensor(Tensor::Scalar(bound), type)));
      break;
  }
  std::optional<int> activated = chain.AddStep(node, arguments, type);
  if (!activated) Fail(ErrorCode::kUnsupported, "no ", node.op_type, " of ", type, " on the device");
  return *activated;
}

constexpr int64_t kFew = 64;

// What looks through many elements is work for the device, although it makes a few integers of them.
static bool ReadsMuch(const OperatorRequest& request) {
  for (size_t i = 0; i < request.node().inputs.size(); ++i)
    if (const std::optional<Shape> shape = request.ShapeOf(i);
        shape && shape->ElementCount() > kFew && !request.Constant(i))
      return true;
  return false;
}

bool IsArithmeticOnShapes(const OperatorRequest& request) {
  const DType type = request.ResultType();
  if (type != DType::kInt64 && type != DType::kInt32 && type != DType::kBool) return false;
  const std::optional<Shape> shape = request.ResultShape();
  return shape && shape->rank() <= 1 && shape->ElementCount() <= kFew;
}

std::optional<ChosenKernel> ChooseOperator(const OperatorRequest& request) {
  if (!request.Has(0) || (IsArithmeticOnShapes(request) && !ReadsMuch(request))) return std::nullopt;
  for (auto choose : {ChooseElementwise, ChooseProduct, ChooseMove, ChooseRows, ChooseImage, ChooseAttention,
                      ChooseLayout, ChooseIndex, ChooseRecurrent, ChooseChannels, ChooseQuantized, ChooseByteStep})
    if (std::optional<ChosenKernel> chosen = choose(request)) return chosen;
  return std::nullopt;
}

}  // namespace ferry::cuda

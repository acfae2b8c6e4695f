#include <unordered_map>

#include "ops/support/fused.h"
#include "providers/cuda/operators.h"
#include "tensor/alignment.h"

namespace ferry::cuda {
namespace {

// Becomes part of the source. Large unsigned numbers have no literal there.
bool IsScalar(const Tensor* constant) {
  return constant && constant->size() == 1 && TypeName(constant->dtype()) && constant->dtype() != DType::kUInt64;
}

// A chain and which of the node's inputs it reads.
struct BuiltChain {
  Chain chain;
  std::vector<size_t> inputs;
  std::vector<Shape> constants;  // shapes of inputs that are part of the source: they broadcast as well
  uint32_t on_host = 0;
};

// Input i of the node as a value of the chain.
std::optional<int> AddInput(const OperatorRequest& request, size_t i, BuiltChain& built) {
  if (const Tensor* constant = request.Constant(i); IsScalar(constant)) {
    built.constants.push_back(constant->shape());
    built.on_host |= InputBit(i);
    return built.chain.AddConstant(IsReadable(*constant) ? *constant : constant->Clone());
  }
  const DType type = request.TypeOf(i);
  if (!TypeName(type)) return std::nullopt;
  built.inputs.push_back(i);
  return built.chain.AddInput(type);
}

ChosenKernel Finish(const OperatorRequest& request, BuiltChain built, std::string name) {
  const uint32_t on_host = built.on_host;
  return OnDevice(
      request, std::move(name),
      [built = std::move(built)](const Device& device, OpContext& context) {
        std::vector<const Tensor*> inputs;
        Shape shape;
        for (const Shape& constant : built.constants) shape = BroadcastShapes(shape, constant);
        for (size_t i : built.inputs) {
          inputs.push_back(&context.Input(i));
          shape = BroadcastShapes(shape, inputs.back()->shape());
        }
        Tensor* output = &context.Output(0, built.chain.output_type(0), shape);
        built.chain.Run(device, inputs, {&output, 1});
      },
      on_host);
}

std::optional<ChosenKernel> OneOperator(const OperatorRequest& request) {
  BuiltChain built;
  std::vector<int> arguments;
  const size_t count = request.Is("CastLike") ? 1 : request.node().inputs.size();
  for (size_t i = 0; i < count; ++i) {
    std::optional<int> value = request.Has(i) ? AddInput(request, i, built) : -1;
    if (!value) return std::nullopt;
    arguments.push_back(*value);
  }
  if (built.inputs.empty()) return std::nullopt;
  std::optional<int> result = built.chain.AddStep(request.node(), arguments, request.ResultType());
  if (!result) return std::nullopt;
  built.chain.AddOutput(*result);
  return Finish(request, std::move(built), "elementwise");
}

std::optional<ChosenKernel> SeveralOperators(const OperatorRequest& request) {
  const Attribute* attribute = request.node().Find("body");
  auto* graphs = attribute ? std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute->held) : nullptr;
  if (!graphs || graphs->size() != 1) return std::nullopt;
  const Graph& body = *graphs->front();
  BuiltChain built;
  std::unordered_map<std::string, int> values;
  std::unordered_map<std::string, DType> types;
  for (const ValueInfo& info : body.value_infos) types[info.name] = info.type.dtype;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    std::optional<int> value = AddInput(request, i, built);
    if (!value) return std::nullopt;
    values[body.inputs[i].name] = *value;
  }
  for (const Node& node : body.nodes) {
    std::vector<int> arguments;
    for (const std::string& input : node.inputs) arguments.push_back(input.empty() ? -1 : values.at(input));
    std::optional<int> value = built.chain.AddStep(node, arguments, types[node.outputs[0]]);
    if (!value) return std::nullopt;
    values[node.outputs[0]] = *value;
  }
  built.chain.AddOutput(values.at(body.outputs[0].name));
  return Finish(request, std::move(built), Cat("chain of ", body.nodes.size()));
}

// activation(x · factor + offset), both along the last axis.
std::optional<ChosenKernel> Affine(const OperatorRequest& request) {
  BuiltChain built;
  std::optional<int> x = AddInput(request, 0, built), factor = AddInput(request, 1, built);
  if (!x || !factor || built.inputs.empty()) return std::nullopt;
  const DType type = request.TypeOf(0);
  Node multiply, add;
  multiply.op_type = "Mul", add.op_type = "Add";
  std::optional<int> value = built.chain.AddStep(multiply, std::vector{*x, *factor}, type);
  if (value && request.Has(2)) {
    std::optional<int> offset = AddInput(request, 2, built);
    value = offset ? built.chain.AddStep(add, std::vector{*value, *offset}, type) : std::nullopt;
  }
  if (!value) return std::nullopt;
  built.chain.AddOutput(AddActivation(built.chain, *value, ActivationOf(request.node())));
  return Finish(request, std::move(built), "affine");
}

}  // namespace

bool IsChainable(const Node& node, std::span<const ValueFacts* const> inputs, const ValueFacts* output) {
  if (!CanonicalDomain(node.domain).empty() || node.outputs.size() != 1 || !output || !output->type.is_tensor())
    return false;
  Chain chain;
  std::vector<int> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.HasInput(i) && (!inputs[i] || !inputs[i]->type.is_tensor() || !TypeName(inputs[i]->type.dtype)))
      return false;
    arguments.push_back(node.HasInput(i) ? chain.AddInput(inputs[i]->type.dtype) : -1);
  }
  return node.op_type != "CastLike" && chain.AddStep(node, arguments, output->type.dtype).has_value();
}

std::optional<ChosenKernel> ChooseElementwise(const OperatorRequest& request) {
  if (request.IsInternal("ElementwiseChain")) return SeveralOperators(request);
  if (request.IsInternal("NhwcAffine")) return Affine(request);
  if (!CanonicalDomain(request.node().domain).empty() || !request.WantsOnly(1) || request.node().inputs.empty())
    return std::nullopt;
  return OneOperator(request);
}

}  // namespace ferry::cuda

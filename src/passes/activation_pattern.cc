#include "passes/activation_pattern.h"

#include <limits>

#include "passes/match.h"

namespace ferry {
namespace {

std::optional<float> ScalarOf(const GraphEditor& editor, const Node& node, size_t input, float otherwise) {
  if (!node.HasInput(input)) return otherwise;
  const Tensor* constant = editor.Constant(node.inputs[input]);
  if (!constant || constant->size() != 1 || constant->dtype() != DType::kFloat) return std::nullopt;
  return *constant->Data<float>();
}

std::optional<Activation> OneNode(const GraphEditor& editor, const Node& node) {
  using Kind = ActivationKind;
  if (IsStandard(node, "Relu")) return Activation{Kind::kRelu};
  if (IsStandard(node, "Sigmoid")) return Activation{Kind::kSigmoid};
  if (IsStandard(node, "Tanh")) return Activation{Kind::kTanh};
  if (IsStandard(node, "HardSwish")) return Activation{Kind::kHardSwish};
  if (IsStandard(node, "Swish")) return Activation{Kind::kSilu, node.Float("alpha", 1.0f)};
  if (IsStandard(node, "LeakyRelu")) return Activation{Kind::kLeakyRelu, node.Float("alpha", 0.01f)};
  if (IsStandard(node, "HardSigmoid"))
    return Activation{Kind::kHardSigmoid, node.Float("alpha", 0.2f), node.Float("beta", 0.5f)};
  if (IsStandard(node, "Gelu"))
    return Activation{node.String("approximate", "none") == "tanh" ? Kind::kGeluTanh : Kind::kGelu};
  if (IsStandard(node, "Clip")) {
    constexpr float kLargest = std::numeric_limits<float>::max();
    auto low = ScalarOf(editor, node, 1, -kLargest), high = ScalarOf(editor, node, 2, kLargest);
    if (low && high && *low <= *high) return Activation{Kind::kClip, *low, *high};
  }
  return std::nullopt;
}

// x · sigmoid(x) and x · hardsigmoid(x), which PyTorch exports for SiLU and hard-swish.
std::optional<ActivationMatch> SelfGated(const GraphEditor& editor, const std::string& value) {
  const std::vector<size_t>& readers = editor.Readers(value);
  if (readers.size() != 2 || editor.Uses(value) != 2) return std::nullopt;
  for (int order = 0; order < 2; ++order) {
    size_t gate = readers[static_cast<size_t>(order)], product = readers[static_cast<size_t>(1 - order)];
    const Node& gate_node = editor.node(gate);
    const Node& product_node = editor.node(product);
    if (!IsStandard(product_node, "Mul") || gate_node.outputs.size() != 1) continue;
    if (editor.OnlyReader(gate_node.outputs[0]) != static_cast<int>(product)) continue;
    Activation activation;
    if (IsStandard(gate_node, "Sigmoid"))
      activation = {ActivationKind::kSilu, 1.0f};
    else if (IsStandard(gate_node, "HardSigmoid") && gate_node.Float("alpha", 0.2f) == 1.0f / 6 &&
             gate_node.Float("beta", 0.5f) == 0.5f)
      activation = {ActivationKind::kHardSwish};
    else
      continue;
    return ActivationMatch{activation, product_node.outputs[0], {gate, product}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ActivationMatch> MatchActivation(const GraphEditor& editor, const std::string& value) {
  int reader = editor.OnlyReader(value);
  if (reader < 0) return SelfGated(editor, value);
  const Node& node = editor.node(static_cast<size_t>(reader));
  // Only as the operand itself: Clip also reads its bounds.
  if (node.inputs.empty() || node.inputs[0] != value || node.outputs.size() != 1) return std::nullopt;
  std::optional<Activation> activation = OneNode(editor, node);
  if (!activation) return std::nullopt;
  return ActivationMatch{*activation, node.outputs[0], {static_cast<size_t>(reader)}};
}

}  // namespace ferry

#include "passes/activation_pattern.h"

#include "ops/support/activation.h"
#include "passes/match.h"

namespace ferry {
namespace {

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
  std::optional<Activation> activation =
      StandardActivation(node, [&](size_t input) { return editor.Constant(node.inputs[input]); });
  if (!activation) return std::nullopt;
  return ActivationMatch{*activation, node.outputs[0], {static_cast<size_t>(reader)}};
}

}  // namespace ferry

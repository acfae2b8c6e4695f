#include "passes/match.h"

#include <algorithm>

namespace ferry {

bool HasAny(const Graph& graph, std::initializer_list<std::string_view> ops) {
  for (const Node& node : graph.nodes)
    if (std::find(ops.begin(), ops.end(), node.op_type) != ops.end()) return true;
  return false;
}

const Node* MadeBy(const GraphEditor& editor, const std::string& value, std::string_view op) {
  int index = editor.Producer(value);
  if (index < 0 || !IsStandard(editor.node(static_cast<size_t>(index)), op)) return nullptr;
  return &editor.node(static_cast<size_t>(index));
}

const Node* MadeOnlyBy(const GraphEditor& editor, const std::string& value, std::string_view op) {
  return editor.Uses(value) == 1 ? MadeBy(editor, value, op) : nullptr;
}

std::optional<float> ScalarConstant(const GraphEditor& editor, const std::string& value) {
  const Tensor* constant = editor.Constant(value);
  // A tensor of more dimensions could widen what it is combined with.
  if (!constant || constant->dtype() != DType::kFloat || constant->size() != 1 || constant->rank() > 1)
    return std::nullopt;
  return *constant->Data<float>();
}

std::optional<WithScalar> ScalarOperand(const GraphEditor& editor, const Node& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  for (size_t i = 0; i < 2; ++i)
    if (auto scalar = ScalarConstant(editor, node.inputs[i])) return WithScalar{*scalar, node.inputs[1 - i]};
  return std::nullopt;
}

bool CoversSpatialAxes(const Tensor& axes, size_t rank) {
  if (axes.dtype() != DType::kInt64 || rank < 3) return false;
  std::vector<bool> there(rank);
  for (int64_t axis : axes.Span<int64_t>()) {
    if (axis < 0) axis += static_cast<int64_t>(rank);
    if (axis < 2 || axis >= static_cast<int64_t>(rank)) return false;
    there[static_cast<size_t>(axis)] = true;
  }
  return std::all_of(there.begin() + 2, there.end(), [](bool is) { return is; });
}

bool IsPermutation(const Node& transpose, std::initializer_list<int64_t> permutation) {
  const Attribute* attribute = transpose.Find("perm");
  if (!attribute) return false;
  std::vector<int64_t> held = transpose.Ints("perm");
  return std::equal(held.begin(), held.end(), permutation.begin(), permutation.end());
}

}  // namespace ferry

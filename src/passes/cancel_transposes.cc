#include "passes/cancel_transposes.h"

#include <algorithm>

#include "passes/match.h"

namespace ferry {
namespace {

class Canceling {
 public:
  Canceling(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    for (size_t i = 0, count = editor_.size(); i < count; ++i) {
      if (editor_.removed(i)) continue;
      const Node& node = editor_.node(i);
      if (node.inputs.size() != 1 || node.inputs[0].empty() || node.outputs.size() != 1) continue;
      if (IsStandard(node, "Transpose")) Merge(i);
      if (ChangesNothing(editor_.node(i))) Bypass(i);
    }
    return editor_.Finish();
  }

 private:
  // The order of a transpose; empty when it is not known.
  std::vector<int64_t> OrderOf(const Node& transpose) const {
    if (transpose.Has("perm")) return transpose.Ints("perm");
    const ValueFacts* facts = facts_.Find(transpose.inputs[0]);
    std::vector<int64_t> order;
    if (facts && facts->type.shape)
      for (size_t axis = facts->type.shape->size(); axis-- > 0;) order.push_back(static_cast<int64_t>(axis));
    return order;
  }

  static bool IsOrder(const std::vector<int64_t>& order) {
    std::vector<bool> seen(order.size());
    for (int64_t axis : order) {
      if (axis < 0 || axis >= static_cast<int64_t>(order.size()) || seen[static_cast<size_t>(axis)]) return false;
      seen[static_cast<size_t>(axis)] = true;
    }
    return !order.empty();
  }

  void Merge(size_t index) {
    const Node& second = editor_.node(index);
    const Node* first = MadeBy(editor_, second.inputs[0], "Transpose");
    if (!first || first->inputs.size() != 1) return;
    std::vector<int64_t> inner = OrderOf(*first), outer = OrderOf(second);
    if (!IsOrder(inner) || !IsOrder(outer) || inner.size() != outer.size()) return;
    Node merged = second;
    for (int64_t& axis : outer) axis = inner[static_cast<size_t>(axis)];
    merged.inputs[0] = first->inputs[0];
    merged.Set("perm", outer);
    editor_.Replace(index, std::move(merged));
  }

  bool ChangesNothing(const Node& node) const {
    if (IsStandard(node, "Identity")) return true;
    if (IsStandard(node, "Cast")) {
      const ValueFacts* facts = facts_.Find(node.inputs[0]);
      const ValueFacts* result = facts_.Find(node.outputs[0]);
      return facts && result && facts->type.is_tensor() && facts->type.dtype != DType::kUndefined &&
             facts->type.dtype == result->type.dtype;
    }
    if (!IsStandard(node, "Transpose")) return false;
    std::vector<int64_t> order = OrderOf(node);
    return IsOrder(order) && std::is_sorted(order.begin(), order.end());
  }

  // Whoever reads the result reads what it was made from. Results of the graph and what bodies read keep their names.
  void Bypass(size_t index) {
    std::string from = editor_.node(index).inputs[0], to = editor_.node(index).outputs[0];
    if (editor_.Uses(to) > editor_.Readers(to).size()) {
      Node same;
      same.name = editor_.node(index).name;
      same.op_type = "Identity";
      same.inputs = {from};
      same.outputs = {to};
      if (!IsStandard(editor_.node(index), "Identity")) editor_.Replace(index, std::move(same));
      return;
    }
    for (size_t reader : std::vector<size_t>(editor_.Readers(to))) {
      Node changed = editor_.node(reader);
      std::replace(changed.inputs.begin(), changed.inputs.end(), to, from);
      editor_.Replace(reader, std::move(changed));
    }
    editor_.Remove(index);
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
};

}  // namespace

bool CancelTransposes(Graph& graph, const GraphFacts& facts) {
  return HasAny(graph, {"Transpose", "Identity", "Cast"}) && Canceling(graph, facts).Run();
}

}  // namespace ferry

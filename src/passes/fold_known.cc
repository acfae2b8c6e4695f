#include "passes/fold_known.h"

#include "graph/editor.h"

namespace ferry {
namespace {

bool FoldIn(Graph& graph, const FactsByName& values, const GraphFacts& facts) {
  bool changed = false;
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes) {
      auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held);
      if (!body || !*body) continue;
      auto known = facts.bodies.find(body->get());
      if (known != facts.bodies.end()) changed |= FoldIn(**body, known->second, facts);
    }
  GraphEditor editor(graph);
  for (size_t i = 0, count = editor.size(); i < count; ++i) {
    std::vector<std::pair<std::string, Tensor>> results;
    const Node& node = editor.node(i);
    for (const std::string& output : node.outputs) {
      auto found = output.empty() ? values.end() : values.find(output);
      if (found == values.end() || !found->second.constant) break;
      results.emplace_back(output, *found->second.constant);
    }
    if (results.empty() || results.size() != node.outputs.size()) continue;
    editor.Remove(i);
    for (auto& [name, tensor] : results) editor.DefineConstant(name, tensor.Persistent());
  }
  return editor.Finish() || changed;
}

}  // namespace

bool FoldKnown(Graph& graph, const GraphFacts& facts) { return FoldIn(graph, facts.values, facts); }

}  // namespace ferry

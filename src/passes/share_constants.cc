#include "passes/share_constants.h"

#include <unordered_map>

#include "graph/scopes.h"

namespace ferry {
namespace {

using Constants = std::unordered_map<std::string_view, const StoredTensor*>;

bool Share(Graph& graph, const Constants& outer);

bool HasBodies(const Graph& graph) {
  bool found = false;
  for (const Node& node : graph.nodes) ForEachSubgraph(node, [&](const Graph&) { found = true; });
  return found;
}

bool ShareWithBodies(Graph& graph, const Constants& outer) {
  if (!HasBodies(graph)) return false;
  Constants visible = outer;
  for (const StoredTensor& initializer : graph.initializers) visible[initializer.name] = &initializer;
  for (const ValueInfo& input : graph.inputs) visible.erase(input.name);
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs) visible.erase(output);
  bool changed = false;
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes)
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body)
        changed |= Share(**body, visible);
  return changed;
}

bool Share(Graph& graph, const Constants& outer) {
  bool changed = false;
  for (const std::string& name : CapturedNames(graph)) {
    auto constant = outer.find(name);
    if (constant == outer.end()) continue;
    graph.initializers.push_back(*constant->second);
    changed = true;
  }
  return ShareWithBodies(graph, outer) || changed;
}

}  // namespace

bool ShareConstants(Graph& graph) { return ShareWithBodies(graph, {}); }

}  // namespace ferry

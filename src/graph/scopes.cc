#include "graph/scopes.h"

namespace ferry {
namespace {

void Collect(const Graph& graph, std::unordered_set<std::string>& seen, std::vector<std::string>& captured) {
  std::unordered_set<std::string> made;
  for (const ValueInfo& input : graph.inputs) made.insert(input.name);
  for (const StoredTensor& initializer : graph.initializers) made.insert(initializer.name);
  for (const StoredSparseTensor& initializer : graph.sparse_initializers) made.insert(initializer.values.name);
  auto read = [&](const std::string& name) {
    if (!name.empty() && !made.count(name) && seen.insert(name).second) captured.push_back(name);
  };
  for (const Node& node : graph.nodes) {
    for (const std::string& input : node.inputs) read(input);
    for (const std::string& name : CapturedNames(node)) read(name);
    for (const std::string& output : node.outputs) made.insert(output);
  }
  for (const ValueInfo& output : graph.outputs) read(output.name);
}

}  // namespace

std::vector<std::string> CapturedNames(const Graph& graph) {
  std::unordered_set<std::string> seen;
  std::vector<std::string> captured;
  Collect(graph, seen, captured);
  return captured;
}

std::vector<std::string> CapturedNames(const Node& node) {
  std::unordered_set<std::string> seen;
  std::vector<std::string> captured;
  ForEachSubgraph(node, [&](const Graph& body) { Collect(body, seen, captured); });
  return captured;
}

}  // namespace ferry

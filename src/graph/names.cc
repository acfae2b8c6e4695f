#include "graph/names.h"

#include "base/text.h"

namespace ferry {
namespace {

void GatherNodes(const std::vector<Node>& nodes, std::unordered_set<std::string>& names);

void GatherGraph(const Graph& graph, std::unordered_set<std::string>& names) {
  for (const auto& value : graph.inputs) names.insert(value.name);
  for (const auto& value : graph.outputs) names.insert(value.name);
  for (const auto& value : graph.value_infos) names.insert(value.name);
  for (const auto& tensor : graph.initializers) names.insert(tensor.name);
  for (const auto& tensor : graph.sparse_initializers) names.insert(tensor.values.name);
  GatherNodes(graph.nodes, names);
}

void GatherNodes(const std::vector<Node>& nodes, std::unordered_set<std::string>& names) {
  for (const Node& node : nodes) {
    names.insert(node.name);
    names.insert(node.inputs.begin(), node.inputs.end());
    names.insert(node.outputs.begin(), node.outputs.end());
    ForEachSubgraph(node, [&](const Graph& body) { GatherGraph(body, names); });
  }
}

void GatherModel(const Model& model, std::unordered_set<std::string>& names) {
  GatherGraph(model.graph, names);
  for (const Function& function : model.functions) {
    names.insert(function.inputs.begin(), function.inputs.end());
    names.insert(function.outputs.begin(), function.outputs.end());
    GatherNodes(function.nodes, names);
  }
  for (const TrainingInfo& info : model.training) {
    if (info.initialization) GatherGraph(*info.initialization, names);
    if (info.algorithm) GatherGraph(*info.algorithm, names);
  }
}

}  // namespace

std::string NameMaker::Make(std::string_view wish) {
  if (!gathered_) {
    gathered_ = true;
    GatherModel(*model_, taken_);
    taken_.insert("");
  }
  std::string name(wish);
  for (int64_t number = 2; !taken_.insert(name).second; ++number) name = Cat(wish, "_", number);
  return name;
}

}  // namespace ferry

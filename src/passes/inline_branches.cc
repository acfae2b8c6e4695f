#include "passes/inline_branches.h"

#include <optional>

#include "passes/match.h"

namespace ferry {
namespace {

using Renames = std::unordered_map<std::string, std::string>;

template <class Visit>
void ForEachDefinition(const Graph& graph, const Visit& visit) {
  for (const ValueInfo& input : graph.inputs) visit(input.name);
  for (const StoredTensor& initializer : graph.initializers)
    if (!graph.FindInput(initializer.name)) visit(initializer.name);
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty()) visit(output);
}

void Rename(std::string& name, const Renames& names) {
  auto found = names.find(name);
  if (found != names.end()) name = found->second;
}

// What a body reads from outside gets its new name; what it makes itself keeps its own.
void RenameCaptured(Graph& body, Renames names) {
  ForEachDefinition(body, [&](const std::string& name) { names.erase(name); });
  if (names.empty()) return;
  for (Node& node : body.nodes) {
    for (std::string& input : node.inputs) Rename(input, names);
    for (Attribute& attribute : node.attributes)
      if (auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute.held); inner && *inner)
        RenameCaptured(**inner, names);
  }
  for (ValueInfo& output : body.outputs) Rename(output.name, names);
}

class Inlining {
 public:
  Inlining(Graph& root, const GraphFacts& facts) : root_(root), facts_(facts) {
    ForEachGraph(root, [&](const Graph& graph) {
      ForEachDefinition(graph, [&](const std::string& name) { ++definitions_[name]; });
    });
  }

  bool Run() {
    RunIn(root_, [&](const std::string& name) { return facts_.Find(name); });
    return changed_;
  }

 private:
  void RunIn(Graph& graph, const OuterFacts& scope) {
    std::vector<Node> nodes;
    for (Node& node : graph.nodes) {
      if (std::optional<bool> condition = KnownCondition(node, scope)) {
        Splice(graph, node, *node.Subgraph(*condition ? "then_branch" : "else_branch"), nodes);
        changed_ = true;
        continue;
      }
      for (Attribute& attribute : node.attributes)
        if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body) RunInBody(**body, scope);
      nodes.push_back(std::move(node));
    }
    graph.nodes = std::move(nodes);
  }

  void RunInBody(Graph& body, const OuterFacts& outer) {
    auto known = facts_.bodies.find(&body);
    if (known == facts_.bodies.end()) return;
    RunIn(body, [&](const std::string& name) -> const ValueFacts* {
      auto found = known->second.find(name);
      return found != known->second.end() ? &found->second : outer(name);
    });
  }

  static std::optional<bool> KnownCondition(const Node& node, const OuterFacts& scope) {
    if (!IsStandard(node, "If") || node.inputs.size() != 1) return std::nullopt;
    const ValueFacts* facts = scope(node.inputs[0]);
    if (!facts || !facts->constant) return std::nullopt;
    const Tensor& condition = *facts->constant;
    if (condition.dtype() != DType::kBool || condition.size() != 1) return std::nullopt;
    bool taken = *condition.Data<bool>();
    const Graph& branch = *node.Subgraph(taken ? "then_branch" : "else_branch");
    return branch.outputs.size() == node.outputs.size() ? std::optional(taken) : std::nullopt;
  }

  // Names may be used again in sibling bodies, which are about to share a graph.
  std::string NameOutside(const std::string& name) {
    if (definitions_[name] <= 1) return name;
    for (int i = 1;; ++i) {
      std::string fresh = Cat(name, "_branch", i);
      if (definitions_[fresh]++ == 0) return fresh;
    }
  }

  void Splice(Graph& graph, const Node& node, Graph& branch, std::vector<Node>& nodes) {
    Renames names;
    std::vector<Node> identities;
    std::unordered_map<std::string, bool> made_by_node;
    for (const Node& inner : branch.nodes)
      for (const std::string& output : inner.outputs) made_by_node[output] = true;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& inner = branch.outputs[i].name;
      if (node.outputs[i].empty()) continue;
      // A body further inside may make a value of the outer name: there the inner one would no longer be seen.
      if (made_by_node[inner] && definitions_[node.outputs[i]] <= 1 && names.emplace(inner, node.outputs[i]).second)
        continue;
      Node identity;
      identity.op_type = "Identity";
      identity.inputs = {inner};
      identity.outputs = {node.outputs[i]};
      identities.push_back(std::move(identity));
    }
    ForEachDefinition(branch, [&](const std::string& name) {
      if (!names.count(name)) names[name] = NameOutside(name);
    });
    for (StoredTensor& initializer : branch.initializers) {
      Rename(initializer.name, names);
      graph.initializers.push_back(std::move(initializer));
    }
    for (Node& inner : branch.nodes) {
      for (std::string& input : inner.inputs) Rename(input, names);
      for (std::string& output : inner.outputs) Rename(output, names);
      for (Attribute& attribute : inner.attributes)
        if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body)
          RenameCaptured(**body, names);
      nodes.push_back(std::move(inner));
    }
    for (Node& identity : identities) {
      Rename(identity.inputs[0], names);
      nodes.push_back(std::move(identity));
    }
  }

  Graph& root_;
  const GraphFacts& facts_;
  std::unordered_map<std::string, int> definitions_;
  bool changed_ = false;
};

}  // namespace

bool InlineBranches(Graph& graph, const GraphFacts& facts) { return Inlining(graph, facts).Run(); }

}  // namespace ferry

#include "onnx/upgrade/upgrade.h"

#include <array>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "graph/sort_nodes.h"
#include "onnx/schema.h"
#include "onnx/scope.h"
#include "onnx/upgrade/rules.h"

namespace ferry {
namespace {

template <class Visit>
void ForEachRule(const Node& node, int64_t opset, const Visit& visit) {
  static const std::array kFamilies = {ArithmeticUpgrades(), ControlFlowUpgrades(), NormalizationUpgrades(),
                                       ReductionUpgrades(),  ResizeUpgrades(),      ShapeUpgrades(),
                                       SoftmaxUpgrades(),    VariousUpgrades()};
  std::string_view domain = CanonicalDomain(node.domain);
  for (std::span<const UpgradeRule> family : kFamilies)
    for (const UpgradeRule& rule : family)
      if (opset < rule.since && rule.op == node.op_type && rule.domain == domain) visit(rule);
}

class Upgrader {
 public:
  // An empty `domain` (no value at all, not "") stands for all.
  Upgrader(const Model& model, std::optional<std::string_view> domain) : names_(model), domain_(domain) {
    for (const Function& function : model.functions) functions_.insert(Key(function.domain, function.name));
  }

  bool NeedsUpgrade(const std::vector<Node>& nodes, const std::vector<OpsetImport>& opsets) const {
    for (const Node& node : nodes) {
      if (NeedsUpgrade(node, opsets)) return true;
      bool inside = false;
      ForEachSubgraph(node, [&](const Graph& body) { inside |= NeedsUpgrade(body.nodes, opsets); });
      if (inside) return true;
    }
    return false;
  }

  void UpgradeGraph(Graph& graph, const std::vector<OpsetImport>& opsets, Scope* outer) {
    if (!NeedsUpgrade(graph.nodes, opsets)) return;
    Scope scope(graph.nodes, opsets, outer);
    scope.Declare(graph);
    UpgradeNodes(graph.nodes, opsets, scope);
  }

  void UpgradeFunction(Function& function) {
    if (!NeedsUpgrade(function.nodes, function.opsets)) return;
    Scope scope(function.nodes, function.opsets, nullptr);
    scope.Declare(function.value_infos);
    UpgradeNodes(function.nodes, function.opsets, scope);
  }

 private:
  static std::string Key(std::string_view domain, std::string_view name) {
    return Cat(CanonicalDomain(domain), ":", name);
  }

  // A function of the model stands before the standard's operator of the same name.
  bool IsStandard(const Node& node) const {
    if (domain_ && CanonicalDomain(node.domain) != CanonicalDomain(*domain_)) return false;
    return NewestOpset(node.domain) > 0 && (functions_.empty() || !functions_.count(Key(node.domain, node.op_type)));
  }

  bool NeedsUpgrade(const Node& node, const std::vector<OpsetImport>& opsets) const {
    if (!IsStandard(node)) return false;
    int64_t opset = OpsetOf(opsets, node.domain);
    if (opset < kConsumedInputsEnd && node.Has("consumed_inputs")) return true;
    bool found = false;
    ForEachRule(node, opset, [&](const UpgradeRule&) { found = true; });
    return found;
  }

  // The scope reads the nodes as they were until the last of them is done.
  void UpgradeNodes(std::vector<Node>& nodes, const std::vector<OpsetImport>& opsets, Scope& scope) {
    std::vector<Node> made;
    std::vector<std::pair<size_t, size_t>> ends;  // a node, and where those made for it end
    for (size_t i = 0; i < nodes.size(); ++i) {
      bool bodies = false;
      ForEachSubgraph(nodes[i], [&](const Graph& body) { bodies |= NeedsUpgrade(body.nodes, opsets); });
      const bool itself = NeedsUpgrade(nodes[i], opsets);
      if (!bodies && !itself) continue;
      scope.EnterNode(i);
      Node node = nodes[i];
      if (bodies) UpgradeBodies(node, opsets, scope);
      if (itself)
        UpgradeNode(std::move(node), OpsetOf(opsets, nodes[i].domain), scope, made);
      else
        made.push_back(std::move(node));
      ends.emplace_back(i, made.size());
    }
    std::vector<Node> upgraded;
    upgraded.reserve(nodes.size() + made.size() - ends.size());
    auto next = ends.begin();
    size_t begin = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (next == ends.end() || next->first != i) {
        upgraded.push_back(std::move(nodes[i]));
        continue;
      }
      for (; begin < next->second; ++begin) upgraded.push_back(std::move(made[begin]));
      ++next;
    }
    nodes = std::move(upgraded);
  }

  void UpgradeNode(Node node, int64_t opset, Scope& scope, std::vector<Node>& out) {
    std::string place = Describe(node);
    if (opset < kConsumedInputsEnd) node.Remove("consumed_inputs");
    std::vector<const UpgradeRule*> rules;
    ForEachRule(node, opset, [&](const UpgradeRule& rule) { rules.push_back(&rule); });
    NodeRewrite rewrite(std::move(node), opset, shared_, scope);
    try {
      for (const UpgradeRule* rule : rules) rule->apply(rewrite);
    } catch (Error& error) {
      throw error.At(place);
    }
    std::move(rewrite).Finish(out);
  }

  void UpgradeBodies(Node& node, const std::vector<OpsetImport>& opsets, Scope& scope) {
    auto upgrade = [&](std::shared_ptr<Graph>& body) {
      if (!body || !NeedsUpgrade(body->nodes, opsets)) return;
      body = std::make_shared<Graph>(*body);
      UpgradeGraph(*body, opsets, &scope);
    };
    for (Attribute& attribute : node.attributes) {
      if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute.held)) {
        upgrade(*one);
      } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute.held)) {
        for (auto& body : *many) upgrade(body);
      }
    }
  }

  // Opset 6 ended the hint about memory that had no meaning of its own.
  static constexpr int64_t kConsumedInputsEnd = 6;
  NameMaker names_;
  RewriteShared shared_{.names = names_};
  std::optional<std::string_view> domain_;
  std::unordered_set<std::string> functions_;
};

void CheckOpsets(const std::vector<OpsetImport>& opsets) {
  for (const OpsetImport& import : opsets) {
    int64_t newest = NewestOpset(import.domain);
    if (newest == 0) continue;
    std::string name = import.domain.empty() ? "ai.onnx" : import.domain;
    if (import.version > newest)
      Fail(ErrorCode::kUnsupported, "the model needs opset ", import.version, " of ", name,
           "; this version of Ferry knows opsets up to ", newest,
           ". Export it for an older opset, or use a newer Ferry");
    if (import.version < 1) Fail(ErrorCode::kInvalidModel, "opset ", import.version, " of ", name, " does not exist");
  }
}

void AddMissingImports(const std::vector<Node>& nodes, std::vector<OpsetImport>& opsets) {
  for (const Node& node : nodes) {
    if (int64_t newest = NewestOpset(node.domain); newest > 0 && OpsetOf(opsets, node.domain) == 0)
      opsets.push_back({std::string(CanonicalDomain(node.domain)), newest, {}});
    ForEachSubgraph(node, [&](const Graph& body) { AddMissingImports(body.nodes, opsets); });
  }
}

void RequireImports(const std::vector<Node>& nodes, const std::vector<OpsetImport>& opsets) {
  for (const Node& node : nodes) {
    if (NewestOpset(node.domain) > 0 && OpsetOf(opsets, node.domain) == 0)
      Fail(ErrorCode::kInvalidModel, Describe(node), ": the model imports no opset of domain '",
           node.domain.empty() ? "ai.onnx" : node.domain, "'");
    ForEachSubgraph(node, [&](const Graph& body) { RequireImports(body.nodes, opsets); });
  }
}

void SetNewest(std::vector<OpsetImport>& opsets, std::optional<std::string_view> domain) {
  for (OpsetImport& import : opsets) {
    if (domain && CanonicalDomain(import.domain) != CanonicalDomain(*domain)) continue;
    if (int64_t newest = NewestOpset(import.domain)) import.version = newest;
  }
}

void UpgradeDomains(Model& model, std::optional<std::string_view> domain) {
  CheckOpsets(model.opsets);
  SortNodes(model);
  // A domain that is used and not imported is taken at its newest, as ONNX Runtime takes it.
  if (!model.opsets.empty()) AddMissingImports(model.graph.nodes, model.opsets);
  RequireImports(model.graph.nodes, model.opsets);
  for (const Function& function : model.functions) {
    CheckOpsets(function.opsets);
    RequireImports(function.nodes, function.opsets);
  }
  Upgrader upgrader(model, domain);
  upgrader.UpgradeGraph(model.graph, model.opsets, nullptr);
  for (Function& function : model.functions) {
    upgrader.UpgradeFunction(function);
    SetNewest(function.opsets, domain);
  }
  for (TrainingInfo& info : model.training) {
    if (info.initialization) upgrader.UpgradeGraph(*info.initialization, model.opsets, nullptr);
    if (info.algorithm) upgrader.UpgradeGraph(*info.algorithm, model.opsets, nullptr);
  }
  SetNewest(model.opsets, domain);
}

}  // namespace

void UpgradeToNewest(Model& model) { UpgradeDomains(model, std::nullopt); }
void UpgradeToNewest(Model& model, std::string_view domain) { UpgradeDomains(model, domain); }

bool NeedsUpgrade(const Model& model) {
  Upgrader upgrader(model, std::nullopt);
  bool needed = upgrader.NeedsUpgrade(model.graph.nodes, model.opsets);
  for (const Function& function : model.functions) needed |= upgrader.NeedsUpgrade(function.nodes, function.opsets);
  return needed;
}

}  // namespace ferry

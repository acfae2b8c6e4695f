#include "passes/widen_halves.h"

#include <algorithm>
#include <map>

#include "graph/scopes.h"
#include "graph/standard.h"
#include "onnx/node_rewrite.h"
#include "ops/operator.h"
#include "ops/support/cache_outputs.h"
#include "ops/traits.h"
#include "passes/pipeline_parts.h"
#include "passes/remove_no_ops.h"
#include "passes/widener.h"

namespace ferry {
namespace {

constexpr size_t kLargeTable = 64 << 10;  // bytes; smaller ones are not worth two copies

bool IsHalf(DType type) { return type == DType::kFloat16; }
constexpr Widening kHalvesToFloat = {IsHalf, DType::kFloat, true};

bool IsHalf(const Type& type) { return type.is_tensor() && IsHalf(type.dtype); }

bool IsCast(const Node& node) { return IsStandard(node, "Cast") || IsStandard(node, "CastLike"); }

using Names = std::map<std::string, std::string>;

void RenameReads(Graph& graph, const Names& names);

void RenameReads(Node& node, const Names& names) {
  for (std::string& input : node.inputs)
    if (auto found = names.find(input); found != names.end()) input = found->second;
  for (Attribute& attribute : node.attributes)
    if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body) RenameReads(**body, names);
}

// In a body, which may have values of its own under such a name.
void RenameReads(Graph& graph, const Names& names) {
  Names seen = names;
  for (const ValueInfo& input : graph.inputs) seen.erase(input.name);
  for (const StoredTensor& initializer : graph.initializers) seen.erase(initializer.name);
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs) seen.erase(output);
  if (seen.empty()) return;
  for (Node& node : graph.nodes) RenameReads(node, seen);
  for (ValueInfo& output : graph.outputs)
    if (auto found = seen.find(output.name); found != seen.end()) output.name = found->second;
}

// What is not, or not only, the matrix of products, whose kernel takes halves.
std::unordered_set<std::string> ReadOtherwise(const Graph& graph) {
  std::unordered_set<std::string> others;
  for (const ValueInfo& output : graph.outputs) others.insert(output.name);
  for (const ValueInfo& input : graph.inputs) others.insert(input.name);
  for (const Node& node : graph.nodes) {
    const bool multiplies =
        IsStandard(node, "MatMul") || (node.op_type == "FusedMatMul" && node.domain == kInternalDomain);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!multiplies || i != 1) others.insert(node.inputs[i]);
    for (std::string& name : CapturedNames(node)) others.insert(std::move(name));
  }
  return others;
}

class Halves {
 public:
  explicit Halves(Graph& graph) : graph_(graph), facts_(InferGraph(graph, {}, TolerantInference())) {}

  // Something is computed in halves, the type of every value is known, and no container of them comes in or goes out.
  bool CanBeWidened() const {
    bool computes = false, is_known = true;
    auto look = [&](const Graph& graph, const FactsByName& facts) {
      for (const Node& node : graph.nodes)
        for (const std::string& output : node.outputs) {
          if (output.empty()) continue;
          auto found = facts.find(output);
          is_known &= found != facts.end() && HasType(found->second.type);
          const Operator& traits = TraitsOf(node);
          computes |= is_known && IsHalf(found->second.type) && !IsCast(node) && !traits.moves_elements &&
                      !traits.is_view && !traits.has_subgraphs;
        }
    };
    look(graph_, facts_.values);
    for (const auto& [body, facts] : facts_.bodies) look(*body, facts);
    for (const auto* infos : {&graph_.inputs, &graph_.outputs})
      for (const ValueInfo& info : *infos) is_known &= IsHalf(info.type) || !MentionsWidened(info.type, kHalvesToFloat);
    return computes && is_known;
  }

  WidenedWeights Run() {
    Model around;  // names are made for a whole model
    around.graph = std::move(graph_);
    NameMaker names(around);
    names.Make("widened");  // gathers the names in use while every node is still in its place
    Graph& graph = around.graph;
    KeepEdges(graph, names);
    KeepTables(graph, names);
    KeepMatrices(graph);
    SpellOutCasts(graph, facts_.values);
    Widener widener(graph, std::move(facts_), names, kHalvesToFloat, std::move(narrow_));
    widener.Run();
    RemoveNoOps(graph, {});
    graph_ = std::move(around.graph);
    return widener.TakeWeights();
  }

 private:
  static bool HasType(const Type& type) {
    if (type.kind == Type::Kind::kUnknown) return false;
    if (type.is_tensor()) return type.dtype != DType::kUndefined;
    return !type.element || HasType(*type.element);
  }

  bool IsHalfValue(const std::string& name) const {
    const ValueFacts* facts = facts_.Find(name);
    return facts && IsHalf(facts->type);
  }

  static Node CastTo(const std::string& from, const std::string& to) {
    Node cast = MakeNode("Cast", {from}, {to}, {{"to", static_cast<int64_t>(DType::kFloat16)}});
    cast.name = Cat(to, " (cast)");
    return cast;
  }

  // Gives a half of the graph's edge another name inside the graph, with what is known of it.
  void Enclose(const std::string& name, NameMaker& names) {
    if (inside_.count(name) || !IsHalfValue(name)) return;
    const std::string& inside = inside_[name] = names.Make(Cat(name, " (as float)"));
    facts_.values[inside].type = facts_.Find(name)->type;
    narrow_.insert(name);
  }

  // Attention that appends to caches as they come in, which may be where they go.
  bool AppendsToHalves(const Graph& graph, const Node& node) const {
    for (size_t output : {1, 2}) {
      const int past = CacheInputOf(node, output);
      const bool has_both = past >= 0 && node.HasInput(static_cast<size_t>(past)) && node.HasOutput(output);
      if (!has_both || !IsHalfValue(node.inputs[static_cast<size_t>(past)]) ||
          !graph.FindInput(node.inputs[static_cast<size_t>(past)]))
        return false;
    }
    return true;
  }

  void FindEdges(const Graph& graph, NameMaker& names) {
    std::unordered_set<std::string> read;
    std::unordered_set<std::string_view> stored;
    for (const Node& node : graph.nodes) {
      read.insert(node.inputs.begin(), node.inputs.end());
      for (std::string& name : CapturedNames(node)) read.insert(std::move(name));
    }
    for (const Node& node : graph.nodes)
      if (AppendsToHalves(graph, node))
        for (size_t output : {1, 2})
          if (!read.count(node.outputs[output])) narrow_.insert(node.outputs[output]);
    for (const StoredTensor& initializer : graph.initializers) stored.insert(initializer.name);
    for (const ValueInfo& input : graph.inputs) Enclose(input.name, names);
    for (const ValueInfo& output : graph.outputs)
      if (stored.count(output.name)) Enclose(output.name, names);
    given_ = narrow_;
    for (const ValueInfo& output : graph.outputs)
      if (!narrow_.count(output.name)) Enclose(output.name, names);
  }

  // Casts of halves to themselves, of which one side becomes wide, stand where a value is first read and where it is
  // made: few are there in both forms at a time.
  void KeepEdges(Graph& graph, NameMaker& names) {
    FindEdges(graph, names);
    std::vector<Node> nodes = std::exchange(graph.nodes, {});
    for (Node& node : nodes) {
      std::vector<std::string> caches;
      if (AppendsToHalves(graph, node))
        for (size_t output : {1, 2})
          caches.push_back(std::exchange(node.inputs[static_cast<size_t>(CacheInputOf(node, output))], {}));
      std::vector<std::string> read = CapturedNames(node);
      read.insert(read.end(), node.inputs.begin(), node.inputs.end());
      for (const std::string& name : read)
        if (given_.erase(name) && inside_.count(name)) graph.nodes.push_back(CastTo(name, inside_[name]));
      RenameReads(node, inside_);
      for (size_t i = 0; i < caches.size(); ++i)
        node.inputs[static_cast<size_t>(CacheInputOf(node, i + 1))] = std::move(caches[i]);
      Keep(std::move(node), graph.nodes);
    }
  }

  // A value that leaves the graph is cast right behind its maker, which keeps its name in reports.
  void Keep(Node node, std::vector<Node>& nodes) {
    std::vector<Node> casts;
    for (std::string& output : node.outputs) {
      auto inside = inside_.find(output);
      if (inside == inside_.end()) continue;
      if (node.name.empty()) node.name = output;
      casts.push_back(CastTo(inside->second, output));
      output = inside->second;
    }
    nodes.push_back(std::move(node));
    std::move(casts.begin(), casts.end(), std::back_inserter(nodes));
  }

  // Embeddings, of which a run reads a few rows: Gather takes them as they lie, others a wide copy.
  void KeepTables(Graph& graph, NameMaker& names) {
    std::map<std::string, size_t> tables;  // by name, the place among the initializers
    std::unordered_set<std::string> elsewhere;
    for (size_t i = 0; i < graph.initializers.size(); ++i) {
      const StoredTensor& stored = graph.initializers[i];
      if (IsHalf(stored.dtype) && IsHalfValue(stored.name) && !narrow_.count(stored.name) &&
          stored.tensor.bytes() > kLargeTable)
        tables[stored.name] = i;
    }
    std::vector<Node*> readers;
    for (Node& node : graph.nodes) {
      for (const std::string& name : CapturedNames(node)) tables.erase(name);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!tables.count(node.inputs[i])) continue;
        if (i == 0 && IsStandard(node, "Gather"))
          readers.push_back(&node);
        else
          elsewhere.insert(node.inputs[i]);
      }
    }
    Names narrow;
    for (Node* node : readers) {
      std::string& table = node->inputs[0];
      if (!tables.count(table)) continue;
      if (elsewhere.count(table)) {
        std::string& copy = narrow[table];
        if (copy.empty()) {
          copy = names.Make(Cat(table, " (rows)"));
          StoredTensor stored = graph.initializers[tables[table]];
          stored.name = copy;
          graph.initializers.push_back(std::move(stored));
          facts_.values[copy] = *facts_.Find(table);
        }
        table = copy;
      }
      narrow_.insert(table);
    }
  }

  // Others become halves again when passes have made products of what reads them: see NarrowMatrices.
  void KeepMatrices(const Graph& graph) {
    const std::unordered_set<std::string> others = ReadOtherwise(graph);
    for (const StoredTensor& stored : graph.initializers)
      if (IsHalf(stored.dtype) && IsLargeMatrix(stored.tensor) && !others.count(stored.name))
        narrow_.insert(stored.name);
  }

  // What is cast to the type of another value is rounded as well.
  void SpellOutCasts(Graph& graph, const FactsByName& facts) {
    for (Node& node : graph.nodes) {
      for (Attribute& attribute : node.attributes)
        if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body)
          if (auto inside = facts_.bodies.find(body->get()); inside != facts_.bodies.end())
            SpellOutCasts(**body, inside->second);
      if (!IsStandard(node, "CastLike") || node.inputs.size() != 2) continue;
      auto known = facts.find(node.outputs[0]);
      if (known == facts.end() || !IsHalf(known->second.type)) continue;
      node.op_type = "Cast";
      node.inputs.pop_back();
      node.Set("to", static_cast<int64_t>(known->second.type.dtype));
    }
  }

  Graph& graph_;
  GraphFacts facts_;
  std::unordered_set<std::string> narrow_, given_;
  Names inside_;
};

bool HasHalves(const Graph& graph) {
  bool found = false;
  ForEachGraph(graph, [&](const Graph& inner) {
    for (const ValueInfo& input : inner.inputs) found |= MentionsWidened(input.type, kHalvesToFloat);
    for (const StoredTensor& initializer : inner.initializers) found |= IsHalf(initializer.dtype);
    for (const Node& node : inner.nodes) {
      if (const Attribute* to = node.Find("to"))
        if (auto* number = std::get_if<int64_t>(&to->held)) found |= IsHalf(static_cast<DType>(*number));
    }
  });
  return found;
}

}  // namespace

WidenedWeights WidenHalves(Graph& graph) {
  if (!HasHalves(graph)) return {};
  Halves halves(graph);
  return halves.CanBeWidened() ? halves.Run() : WidenedWeights();
}

void NarrowMatrices(Graph& graph, const WidenedWeights& weights) {
  std::unordered_map<const void*, const Tensor*> before;
  for (const WidenedWeight& weight : weights) before[weight.wide.raw()] = &weight.narrow;
  if (before.empty()) return;
  const std::unordered_set<std::string> others = ReadOtherwise(graph);
  for (StoredTensor& stored : graph.initializers)
    if (auto found = before.find(stored.tensor.raw()); found != before.end() && !others.count(stored.name))
      stored = MakeStored(stored.name, *found->second);
}

}  // namespace ferry

#include "convert/c/unroll.h"

#include <algorithm>

#include "graph/standard.h"

namespace ferry::c {
namespace {

constexpr int64_t kMostTurns = 64;
constexpr size_t kMostNodes = 4096;  // in all turns of a loop

using Renames = std::unordered_map<std::string, std::string>;

void Rename(std::string& name, const Renames& names) {
  if (auto found = names.find(name); found != names.end()) name = found->second;
}

// Values from outside get their new names in a body and the bodies in it; what a body makes itself hides them.
void RenameInside(Graph& body, Renames names) {
  for (const ValueInfo& input : body.inputs) names.erase(input.name);
  for (const StoredTensor& stored : body.initializers) names.erase(stored.name);
  for (const Node& node : body.nodes)
    for (const std::string& output : node.outputs) names.erase(output);
  for (Node& node : body.nodes) {
    for (std::string& input : node.inputs) Rename(input, names);
    for (Attribute& attribute : node.attributes)
      if (auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute.held); inner && *inner)
        RenameInside(**inner, names);
  }
  for (ValueInfo& output : body.outputs) Rename(output.name, names);
}

Node MakeNode(const char* op, std::vector<std::string> inputs, std::string output) {
  Node node;
  node.op_type = op;
  node.inputs = std::move(inputs);
  node.outputs = {std::move(output)};
  return node;
}

class Unrolling {
 public:
  Unrolling(Graph& graph, const GraphFacts& facts) : graph_(graph), facts_(facts) {}

  bool Run() {
    bool changed = false;
    std::vector<Node> nodes;
    for (Node& node : graph_.nodes) {
      const int64_t turns = TurnsOf(node);
      if (turns > 0) {
        WriteTurns(node, turns, nodes);
        changed = true;
      } else {
        nodes.push_back(std::move(node));
      }
    }
    graph_.nodes = std::move(nodes);
    return changed;
  }

 private:
  const Tensor* KnownOne(const Node& node, size_t input) const {
    const ValueFacts* facts = node.HasInput(input) ? facts_.Find(node.inputs[input]) : nullptr;
    return facts && facts->constant && facts->constant->size() == 1 ? &*facts->constant : nullptr;
  }

  bool HasUnknownShape(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& output) {
      const ValueFacts* facts = facts_.Find(output);
      return !output.empty() && (!facts || !facts->type.shape || !ToConcrete(*facts->type.shape));
    });
  }

  // Whether the body says nothing but what it was told.
  static bool GoesOn(const Graph& body) {
    std::string name = body.outputs[0].name;
    for (size_t i = body.nodes.size(); i-- > 0;)
      if (body.nodes[i].HasOutput(0) && body.nodes[i].outputs[0] == name) {
        if (!IsStandard(body.nodes[i], "Identity")) return false;
        name = body.nodes[i].inputs[0];
      }
    if (name == body.inputs[1].name) return true;
    const StoredTensor* stored = body.FindInitializer(name);
    return stored && stored->dtype == DType::kBool && stored->Get().size() == 1 && *stored->Get().Data<bool>();
  }

  // 0 for what is left alone.
  int64_t TurnsOf(const Node& node) const {
    if (!IsStandard(node, "Loop") || node.inputs.size() < 2 || !HasUnknownShape(node)) return 0;
    const Tensor *turns = KnownOne(node, 0), *condition = KnownOne(node, 1);
    if (!turns || turns->dtype() != DType::kInt64) return 0;
    const Graph& body = *node.Subgraph("body");
    if (body.inputs.size() != node.inputs.size() || body.outputs.size() != node.outputs.size() + 1) return 0;
    if (node.HasInput(1) &&
        (!condition || condition->dtype() != DType::kBool || !*condition->Data<bool>() || !GoesOn(body)))
      return 0;
    const int64_t count = *turns->Data<int64_t>();
    return count <= kMostTurns && static_cast<size_t>(std::max<int64_t>(count, 0)) * body.nodes.size() <= kMostNodes
               ? count
               : 0;
  }

  std::string AddConstant(const std::string& name, Tensor tensor) {
    graph_.initializers.push_back(MakeStored(name, std::move(tensor)));
    return name;
  }

  void WriteTurns(const Node& node, int64_t turns, std::vector<Node>& nodes) {
    const Graph& body = *node.Subgraph("body");
    const size_t carried_count = node.inputs.size() - 2;
    const std::string own = Cat(" of ", node.outputs[0]);
    std::vector<std::string> carried(node.inputs.begin() + 2, node.inputs.end());
    std::vector<std::vector<std::string>> stacked(node.outputs.size() - carried_count);
    for (int64_t turn = 0; turn < turns; ++turn) {
      const std::string suffix = Cat(" in turn ", turn, own);
      Graph copy = CopyDeep(body);
      Renames names;
      names[copy.inputs[0].name] = AddConstant(Cat("number", suffix), Tensor::Scalar(turn));
      names[copy.inputs[1].name] = AddConstant(Cat("goes on", suffix), Tensor::Scalar(true));
      for (size_t i = 0; i < carried_count; ++i) names[copy.inputs[2 + i].name] = carried[i];
      for (StoredTensor& stored : copy.initializers) {
        const std::string fresh = Cat(stored.name, suffix);
        names[stored.name] = fresh;
        stored.name = fresh;
        graph_.initializers.push_back(std::move(stored));
      }
      for (const Node& inner : copy.nodes)
        for (const std::string& output : inner.outputs)
          if (!output.empty()) names[output] = Cat(output, suffix);
      for (Node& inner : copy.nodes) {
        for (std::string& input : inner.inputs) Rename(input, names);
        for (std::string& output : inner.outputs) Rename(output, names);
        for (Attribute& attribute : inner.attributes)
          if (auto* deeper = std::get_if<std::shared_ptr<Graph>>(&attribute.held); deeper && *deeper)
            RenameInside(**deeper, names);
        nodes.push_back(std::move(inner));
      }
      for (ValueInfo& output : copy.outputs) Rename(output.name, names);
      for (size_t i = 0; i < carried_count; ++i) carried[i] = copy.outputs[1 + i].name;
      for (size_t i = 0; i < stacked.size(); ++i) {
        const std::string row = Cat("row", suffix, " ", i);
        nodes.push_back(MakeNode("Unsqueeze", {copy.outputs[1 + carried_count + i].name, FirstAxis()}, row));
        stacked[i].push_back(row);
      }
    }
    for (size_t i = 0; i < carried_count; ++i)
      if (node.HasOutput(i)) nodes.push_back(MakeNode("Identity", {carried[i]}, node.outputs[i]));
    for (size_t i = 0; i < stacked.size(); ++i) {
      if (!node.HasOutput(carried_count + i)) continue;
      nodes.push_back(MakeNode("Concat", std::move(stacked[i]), node.outputs[carried_count + i]));
      nodes.back().Set("axis", int64_t{0});
    }
  }

  std::string FirstAxis() {
    if (axis_.empty()) axis_ = AddConstant("first axis of turns", Tensor::FromVector<int64_t>({0}));
    return axis_;
  }

  Graph& graph_;
  const GraphFacts& facts_;
  std::string axis_;
};

}  // namespace

bool UnrollLoops(Graph& graph, const GraphFacts& facts) { return Unrolling(graph, facts).Run(); }

}  // namespace ferry::c

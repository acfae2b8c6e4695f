#include "torch/lower/finish.h"

#include <unordered_set>

#include "base/error.h"
#include "onnx/schema.h"

namespace ferry::torch {
namespace {

using Record = Operand::Record;

class Finisher {
 public:
  explicit Finisher(Emitter& emitter) : emitter_(emitter) {}

  Graph Finish(const std::vector<std::pair<std::string, Operand>>& outputs) {
    PendingGraph& pending = emitter_.graph();
    for (const Operand& input : pending.inputs) taken_.insert(input.record()->name);
    NameOutputs(pending, outputs);
    for (const Operand& output : pending.outputs) needed_.insert(output.record().get());
    MarkNeeded(pending);
    Graph graph = Convert(pending);
    AddInitializers(graph);
    return graph;
  }

 private:
  // Two outputs cannot share a value, and an output is made by a node: an input that is handed through gets a copy.
  void NameOutputs(PendingGraph& pending, const std::vector<std::pair<std::string, Operand>>& outputs) {
    std::unordered_set<const Record*> made, used;
    for (const PendingNode& node : pending.nodes)
      for (const Operand& output : node.outputs) made.insert(output.record().get());
    for (const auto& [wanted, value] : outputs) {
      Operand output = value.AsPairs();
      if (!made.count(output.record().get()) || !used.insert(output.record().get()).second)
        output = Copy(pending, output);
      std::string& name = output.record()->name;
      if (!wanted.empty()) name = wanted;
      if (name.empty()) name = "output";
      name = Unique(name);
      pending.outputs.push_back(output);
      named_.insert(output.record().get());
    }
  }

  static Operand Copy(PendingGraph& pending, const Operand& value) {
    auto record = std::make_shared<Record>(*value.record());
    record->name += "_output";
    record->facts.constant.reset();
    Operand copy(record);
    pending.nodes.push_back({"Identity", {value}, {copy}, {}, {}, "output", {}});
    return copy;
  }

  void Need(const Operand& operand) {
    if (operand) needed_.insert(operand.record().get());
  }

  void MarkNeeded(PendingGraph& pending) {
    for (auto node = pending.nodes.rbegin(); node != pending.nodes.rend(); ++node) {
      bool wanted = false;
      for (const Operand& output : node->outputs) wanted = wanted || needed_.count(output.record().get());
      if (!wanted) continue;
      for (const Operand& input : node->inputs) Need(input);
      for (auto& [name, body] : node->bodies) {
        for (const Operand& output : body->outputs) Need(output);
        MarkNeeded(*body);
      }
    }
  }

  std::string Unique(const std::string& name) {
    std::string unique = name;
    for (int number = 1; !taken_.insert(unique).second; ++number) unique = Cat(name, "_", number);
    return unique;
  }

  std::string NameOf(const Operand& operand, const std::string& suggestion) {
    if (!operand) return {};
    Record* record = operand.record().get();
    if (named_.insert(record).second) record->name = Unique(record->name.empty() ? suggestion : record->name);
    return record->name;
  }

  static Type PlainType(Type type) {
    if (type.shape)
      for (Dim& size : *type.shape)
        if (Emitter::IsMadeUp(size)) size = Dim();
    return type;
  }

  Graph Convert(PendingGraph& pending) {
    Graph graph;
    for (const Operand& input : pending.inputs) {
      named_.insert(input.record().get());
      graph.inputs.push_back({.name = input.record()->name, .type = PlainType(input.type())});
    }
    for (PendingNode& node : pending.nodes) {
      bool wanted = false;
      for (const Operand& output : node.outputs) wanted = wanted || needed_.count(output.record().get());
      if (wanted) graph.nodes.push_back(ConvertNode(node));
    }
    for (const Operand& output : pending.outputs)
      graph.outputs.push_back({.name = NameOf(output, "output"), .type = PlainType(output.type())});
    return graph;
  }

  Node ConvertNode(PendingNode& pending) {
    Node node;
    node.op_type = pending.op_type;
    node.attributes = pending.attributes;
    node.metadata = pending.metadata;
    for (const Operand& input : pending.inputs) node.inputs.push_back(NameOf(input, "constant"));
    for (size_t i = 0; i < pending.outputs.size(); ++i) {
      const Operand& output = pending.outputs[i];
      bool left_out = !needed_.count(output.record().get()) && MayBeLeftOut(pending.op_type, i);
      node.outputs.push_back(left_out ? std::string() : NameOf(output, Cat(pending.origin, "/", pending.op_type)));
    }
    while (!node.outputs.empty() && node.outputs.back().empty()) node.outputs.pop_back();
    for (auto& [name, body] : pending.bodies) node.Set(name, std::make_shared<Graph>(ConvertBody(*body, name)));
    node.name = Cat("node_", node.outputs.empty() ? pending.origin : FirstName(node));
    return node;
  }

  static bool MayBeLeftOut(const std::string& op_type, size_t output) {
    const Schema* schema = FindSchema("", op_type, NewestOpset(""));
    const SchemaParameter* parameter = schema ? schema->OutputAt(output) : nullptr;
    return parameter && parameter->option == SchemaParameter::Option::kOptional;
  }

  static std::string FirstName(const Node& node) {
    for (const std::string& output : node.outputs)
      if (!output.empty()) return output;
    return {};
  }

  Graph ConvertBody(PendingGraph& body, const std::string& name) {
    for (const Operand& input : body.inputs)
      if (input.record()->name.empty() || !named_.count(input.record().get()))
        input.record()->name = Unique(input.record()->name.empty() ? "input" : input.record()->name);
    Graph graph = Convert(body);
    graph.name = name;
    return graph;
  }

  void AddInitializers(Graph& graph) {
    auto add = [&](const Operand& constant) {
      if (!named_.count(constant.record().get())) return;
      graph.initializers.push_back(MakeStored(constant.record()->name, *constant.constant()));
    };
    for (const Operand& weight : emitter_.weights()) add(weight);
    for (const Operand& constant : emitter_.constants()) add(constant);
  }

  Emitter& emitter_;
  std::unordered_set<const Record*> needed_;
  std::unordered_set<const Record*> named_;  // those whose name is final
  std::unordered_set<std::string> taken_;
};

}  // namespace

Graph FinishGraph(Emitter& emitter, const std::vector<std::pair<std::string, Operand>>& outputs) {
  return Finisher(emitter).Finish(outputs);
}

}  // namespace ferry::torch

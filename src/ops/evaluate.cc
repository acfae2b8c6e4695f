#include "ops/evaluate.h"

#include <unordered_map>

#include "base/run_scope.h"
#include "ops/operator.h"

namespace ferry {
namespace {

class EvaluatedSubgraph final : public Subgraph {
 public:
  EvaluatedSubgraph(const Graph& graph, const RunServices& services, const OuterScope& outer)
      : graph_(graph), services_(services), outer_(outer) {}
  size_t input_count() const override { return graph_.inputs.size(); }
  size_t output_count() const override { return graph_.outputs.size(); }
  std::vector<Value> Run(std::span<const Value> inputs) override {
    return EvaluateGraph(graph_, inputs, services_, outer_);
  }

 private:
  const Graph& graph_;
  const RunServices& services_;
  const OuterScope& outer_;
};

}  // namespace

void SettleText(std::span<Value* const> outputs) {
  for (Value* output : outputs)
    if (output && output->is_tensor() && output->tensor().dtype() == DType::kString)
      output->tensor().buffer()->SettleText();
}

std::string DescribeInputs(std::span<const Value* const> inputs) {
  std::vector<std::string> parts;
  for (const Value* value : inputs) {
    if (!value || !value->present())
      parts.push_back("(none)");
    else if (value->is_tensor())
      parts.push_back(Cat(value->tensor().dtype(), value->tensor().shape()));
    else
      parts.push_back(value->KindName());
  }
  return Join(parts, ", ");
}

std::vector<Value> EvaluateNode(const Node& node, std::span<const Value* const> inputs, const RunServices& services,
                                const OuterScope& outer) {
  const Operator* op = FindOperator(node.domain, node.op_type);
  if (!op || !op->compute) Fail(ErrorCode::kUnsupported, Describe(node), ": there is no such operator here");
  std::vector<Value> results(node.outputs.size());
  std::vector<Value*> outputs(node.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = node.outputs[i].empty() ? nullptr : &results[i];
  std::vector<EvaluatedSubgraph> bodies;
  for (const Attribute& attribute : node.attributes)
    if (auto* graph = std::get_if<std::shared_ptr<Graph>>(&attribute.held))
      bodies.emplace_back(**graph, services, outer);
  std::vector<Subgraph*> subgraphs;
  for (EvaluatedSubgraph& body : bodies) subgraphs.push_back(&body);
  OpContext context(node, inputs, outputs, services, subgraphs);
  try {
    context.CheckCancelled();
    op->compute(context);
    if (RunScope::IsCounted()) SettleText(outputs);
  } catch (Error& error) {
    throw Error(error.code(), Cat(Describe(node), ": ", error.message(), " [inputs: ", DescribeInputs(inputs), "]"));
  }
  return results;
}

std::vector<Value> EvaluateGraph(const Graph& graph, std::span<const Value> inputs, const RunServices& services,
                                 const OuterScope& outer, std::map<std::string, Value>* all) {
  Require(inputs.size() <= graph.inputs.size(), "graph '", graph.name, "' takes ", graph.inputs.size(), " inputs, got ",
          inputs.size());
  std::unordered_map<std::string, Value> values;
  for (const StoredTensor& initializer : graph.initializers) values[initializer.name] = initializer.Get();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].present()) values[graph.inputs[i].name] = inputs[i];
  OuterScope scope = [&](const std::string& name) -> const Value* {
    auto it = values.find(name);
    if (it != values.end()) return &it->second;
    return outer ? outer(name) : nullptr;
  };
  for (const Node& node : graph.nodes) {
    std::vector<const Value*> node_inputs;
    for (const std::string& name : node.inputs) {
      node_inputs.push_back(name.empty() ? nullptr : scope(name));
      if (!name.empty() && !node_inputs.back())
        Fail(ErrorCode::kInvalidModel, Describe(node), ": input '", Printable(name), "' is made by nothing before it");
    }
    std::vector<Value> results = EvaluateNode(node, node_inputs, services, scope);
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (all) (*all)[node.outputs[i]] = results[i];
      values[node.outputs[i]] = std::move(results[i]);
    }
  }
  std::vector<Value> outputs;
  for (const ValueInfo& output : graph.outputs) {
    const Value* value = scope(output.name);
    if (!value) Fail(ErrorCode::kInvalidModel, "output '", Printable(output.name), "' is made by no node");
    outputs.push_back(value->Persistent());
  }
  return outputs;
}

}  // namespace ferry

#include "providers/cuda/decode_weights.h"

#include <unordered_map>

#include "ops/evaluate.h"
#include "tensor/alignment.h"

namespace ferry::cuda {

void DecodeWeights(Graph& graph) {
  std::unordered_map<std::string, size_t> stored;
  for (size_t i = 0; i < graph.initializers.size(); ++i) stored.emplace(graph.initializers[i].name, i);
  for (const ValueInfo& input : graph.inputs) stored.erase(input.name);  // a default, which a run may replace
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    bool is_known = node.op_type == "DequantizeLinear" && CanonicalDomain(node.domain).empty();
    for (const std::string& name : node.inputs) is_known = is_known && (name.empty() || stored.count(name));
    if (!is_known) {
      kept.push_back(std::move(node));
      continue;
    }
    std::vector<Value> values;
    for (const std::string& name : node.inputs)
      values.push_back(name.empty() ? Value() : Value(Readable(graph.initializers[stored[name]].Get())));
    std::vector<const Value*> inputs;
    for (const Value& value : values) inputs.push_back(value.present() ? &value : nullptr);
    const std::vector<Value> made = EvaluateNode(node, inputs, {});
    stored.emplace(node.outputs[0], graph.initializers.size());
    graph.initializers.push_back(MakeStored(node.outputs[0], made[0].tensor()));
  }
  graph.nodes = std::move(kept);
}

}  // namespace ferry::cuda

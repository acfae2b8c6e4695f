#include "passes/fold_known.h"

#include <algorithm>
#include <set>

#include "graph/editor.h"
#include "graph/standard.h"

namespace ferry {
namespace {

// Weights that a file keeps as codes or halves.
bool IsDecoding(const Node& node, const FactsByName& values) {
  constexpr int64_t kFewElements = 64;
  if (IsStandard(node, "DequantizeLinear")) return true;
  if (!IsStandard(node, "Cast") || node.outputs.empty()) return false;
  auto made = values.find(node.outputs[0]);
  return made != values.end() && made->second.constant && made->second.constant->dtype() == DType::kFloat &&
         made->second.constant->size() >= kFewElements;
}

bool FoldIn(Graph& graph, const FactsByName& values, const GraphFacts& facts, bool keep_codes) {
  bool changed = false;
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes) {
      auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held);
      if (!body || !*body) continue;
      auto known = facts.bodies.find(body->get());
      if (known != facts.bodies.end()) changed |= FoldIn(**body, known->second, facts, keep_codes);
    }
  GraphEditor editor(graph);
  std::set<std::string> decoded;  // what is made of weights in fewer bits
  for (size_t i = 0, count = editor.size(); i < count; ++i) {
    std::vector<std::pair<std::string, Tensor>> results;
    const Node& node = editor.node(i);
    for (const std::string& output : node.outputs) {
      auto found = output.empty() ? values.end() : values.find(output);
      if (found != values.end() && found->second.constant) results.emplace_back(output, *found->second.constant);
    }
    if (results.empty()) continue;
    auto is_decoded = [&](const std::string& input) { return !input.empty() && decoded.count(input) > 0; };
    const bool tells_sizes = IsStandard(node, {"Shape", "Size"});
    if (keep_codes && !tells_sizes &&
        (IsDecoding(node, values) || std::any_of(node.inputs.begin(), node.inputs.end(), is_decoded))) {
      decoded.insert(node.outputs.begin(), node.outputs.end());
      continue;
    }
    if (results.size() != node.outputs.size()) continue;
    editor.Remove(i);
    for (auto& [name, tensor] : results) editor.DefineConstant(name, tensor.Persistent());
  }
  return editor.Finish() || changed;
}

}  // namespace

bool FoldKnown(Graph& graph, const GraphFacts& facts, bool keep_codes) {
  return FoldIn(graph, facts.values, facts, keep_codes);
}

}  // namespace ferry

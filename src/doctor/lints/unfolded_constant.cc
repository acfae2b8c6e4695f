// Nodes that compute the same from constants in every run.
#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "doctor/lint.h"
#include "ops/operator.h"

namespace ferry {
namespace {

constexpr size_t kMostGrowth = size_t{1} << 20;  // bytes that folding may add to the file

struct Folding {
  std::vector<const Node*> nodes;                    // that need not run
  std::vector<std::pair<std::string, Tensor>> made;  // values of theirs that something else reads
};

Folding FindFolding(const Patient& patient) {
  Folding folding;
  const Graph& graph = patient.model().graph;
  if (!patient.inferred()) return folding;
  std::unordered_set<std::string> constant, folded, wanted;
  for (const StoredTensor& tensor : graph.initializers)
    if (!graph.FindInput(tensor.name)) constant.insert(tensor.name);
  for (const Node& node : graph.nodes) {
    const Operator* op = FindOperator(node.domain, node.op_type);
    bool known = op && !op->is_random && !op->has_subgraphs;
    for (const std::string& input : node.inputs) known = known && (input.empty() || constant.count(input) > 0);
    for (const std::string& output : node.outputs)
      known = known && (output.empty() || patient.ConstantOf(output) != nullptr);
    if (known) {
      constant.insert(node.outputs.begin(), node.outputs.end());
      if (node.op_type == "Constant") continue;
      folding.nodes.push_back(&node);
      folded.insert(node.outputs.begin(), node.outputs.end());
    } else {
      wanted.insert(node.inputs.begin(), node.inputs.end());
      const std::vector<Node> alone{node};
      internal::ForEachNodeIn(alone, "", [&](const Node& inner, const std::string&) {
        wanted.insert(inner.inputs.begin(), inner.inputs.end());
        ForEachSubgraph(inner, [&](const Graph& body) {
          for (const ValueInfo& output : body.outputs) wanted.insert(output.name);
        });
      });
    }
  }
  for (const ValueInfo& output : graph.outputs) wanted.insert(output.name);
  for (const Node* node : folding.nodes)
    for (const std::string& output : node->outputs)
      if (!output.empty() && wanted.count(output)) folding.made.emplace_back(output, *patient.ConstantOf(output));
  return folding;
}

size_t Growth(const Folding& folding) {
  size_t bytes = 0;
  for (const auto& made : folding.made) bytes += made.second.bytes();
  return bytes;
}

void Look(const Patient& patient, FindingList& findings) {
  Folding folding = FindFolding(patient);
  if (folding.nodes.empty()) return;
  std::unordered_set<std::string> results;
  for (const auto& made : folding.made) results.insert(made.first);
  for (const Node* node : folding.nodes) {
    bool is_result = std::any_of(node->outputs.begin(), node->outputs.end(),
                                 [&](const std::string& output) { return results.count(output) > 0; });
    if (!is_result) continue;
    Finding& finding = findings.Add(PlaceOf(*node), "computes the same in every run: all it depends on is constant");
    finding.evidence.emplace_back("result", ToText(*patient.TypeOf(node->outputs[0])));
    finding.fixable = Growth(folding) <= kMostGrowth;
  }
}

void Fix(const Patient& patient, Model& model, FixLog& log) {
  Folding folding = FindFolding(patient);
  if (Growth(folding) > kMostGrowth) {
    log.refusals.push_back(Cat("folding would make the file ", Growth(folding), " bytes larger"));
    return;
  }
  std::unordered_set<std::string> gone;
  for (const Node* node : folding.nodes) gone.insert(Describe(*node) + node->outputs[0]);
  for (auto& [name, tensor] : folding.made) {
    model.graph.initializers.push_back(MakeStored(name, tensor));
    log.changes.push_back(Cat("'", Printable(name), "' is an initializer now"));
  }
  auto& nodes = model.graph.nodes;
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                             [&](const Node& node) {
                               return !node.outputs.empty() && gone.count(Describe(node) + node.outputs[0]) > 0;
                             }),
              nodes.end());
}

}  // namespace

extern const Lint lint_unfolded_constant;
constinit const Lint lint_unfolded_constant = {
    .name = "unfolded-constant",
    .meaning = "What depends on constants only is a constant.",
    .severity = Severity::kNote,
    .remedy = "Let 'ferry doctor --fix' compute it once and keep the result.",
    .look = Look,
    .stage = 65,
    .fix = Fix,
};

}  // namespace ferry

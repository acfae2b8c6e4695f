#include <algorithm>

#include "doctor/lint.h"

namespace ferry {
namespace {

void LookFor(DType type, const std::string& why, const Target& target, const Patient& patient, FindingList& findings) {
  const Graph& graph = patient.model().graph;
  int64_t nodes = 0;
  Place first;
  for (const Node& node : graph.nodes) {
    bool gives = std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& output) {
      const Type* known = output.empty() ? nullptr : patient.TypeOf(output);
      return known && known->dtype == type && !patient.ConstantOf(output);
    });
    if (gives && nodes++ == 0) first = PlaceOf(node);
  }
  auto of_type = [&](const auto& value) { return value.type.dtype == type; };
  int64_t inputs = std::count_if(graph.inputs.begin(), graph.inputs.end(), of_type);
  if (nodes == 0 && inputs == 0) return;
  Finding& finding = findings.Add(first, Cat(type, " on ", target.title, ": ", why));
  finding.evidence = {{"nodes", Cat(nodes)},
                      {"inputs", Cat(inputs)},
                      {"target", target.name},
                      {"source", Cat(target.source, ", ", target.date)}};
}

void Look(const Patient& patient, FindingList& findings) {
  for (const Target& target : patient.targets())
    for (const auto& [type, why] : target.slow) LookFor(type, why, target, patient, findings);
}

}  // namespace

extern const Lint lint_slow_type;
constinit const Lint lint_slow_type = {
    .name = "slow-type",
    .meaning = "No element type slows a target down (int64, double).",
    .severity = Severity::kNote,
    .remedy = "Cast indices to int32 and numbers to float before exporting, where their range allows it.",
    .look = Look,
};

}  // namespace ferry

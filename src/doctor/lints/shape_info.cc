// Shapes that are not declared, or declared as something the operators do not give.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "doctor/lint.h"

namespace ferry {
namespace {

// What is declared, made more exact by what was inferred; the inferred wins where the two contradict each other.
Type Together(const Type& declared, const Type& inferred) {
  if (!declared.known()) return inferred;
  if (!inferred.known() || !SameElementType(declared, inferred)) return inferred.known() ? inferred : declared;
  if (!declared.is_tensor() || !inferred.has_rank()) return declared;
  Type together = declared;
  if (!declared.has_rank() || declared.shape->size() != inferred.shape->size()) {
    together.shape = inferred.shape;
    return together;
  }
  for (size_t i = 0; i < inferred.shape->size(); ++i) {
    const Dim& more = (*inferred.shape)[i];
    Dim& dim = (*together.shape)[i];
    if (more.known()) {
      dim.value = more.value;
      dim.symbol.clear();
    } else if (more.named() && dim.unknown()) {
      dim.symbol = more.symbol;
    }
  }
  return together;
}

void LookAtOutputs(const Patient& patient, FindingList& findings) {
  for (const auto* list : {&patient.model().graph.inputs, &patient.model().graph.outputs})
    for (const ValueInfo& value : *list) {
      bool is_input = list == &patient.model().graph.inputs;
      if (value.type.known() && (!value.type.is_tensor() || value.type.has_rank())) continue;
      Finding& finding =
          findings.Add({.value = value.name}, Cat(is_input ? "input" : "output", " of the model without a shape"));
      const Type* inferred = patient.TypeOf(value.name);
      finding.fixable = !is_input && inferred && inferred->known() && inferred->has_rank();
      if (finding.fixable) finding.evidence.emplace_back("inferred", ToText(*inferred));
      if (!finding.fixable) finding.remedy = "Declare its shape; dimensions may be named where they vary.";
    }
}

void LookInside(const Patient& patient, FindingList& findings) {
  const Graph& graph = patient.model().graph;
  std::unordered_set<std::string_view> declared;
  for (const auto* list : {&graph.value_infos, &graph.outputs})
    for (const ValueInfo& value : *list)
      if (value.type.known() && (!value.type.is_tensor() || value.type.has_rank())) declared.insert(value.name);
  int64_t missing = 0, all = 0;
  std::string first;
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs) {
      if (output.empty() || node.op_type == "Constant") continue;
      ++all;
      if (declared.count(output)) continue;
      const Type* inferred = patient.TypeOf(output);
      if (!inferred || !inferred->known() || !inferred->has_rank()) continue;
      if (missing++ == 0) first = output;
    }
  if (missing == 0) return;
  Finding& finding = findings.Add({.value = first}, "values between nodes have no declared shape");
  finding.severity = Severity::kNote;
  finding.evidence = {{"values", Cat(missing, " of ", all)}};
}

void Look(const Patient& patient, FindingList& findings) {
  for (const Problem& problem : patient.problems()) {
    if (problem.rule != "inference.shape") continue;
    Finding& finding = findings.Add(problem.place, problem.message);
    finding.severity = Severity::kError;
    finding.fixable = true;
  }
  LookAtOutputs(patient, findings);
  LookInside(patient, findings);
}

void Fix(const Patient& patient, Model& model, FixLog& log) {
  if (!patient.inferred()) {
    log.refusals.push_back("shapes cannot be inferred: the model is not valid (see 'ferry check')");
    return;
  }
  Graph& graph = model.graph;
  std::unordered_set<std::string> named;
  for (const ValueInfo& input : graph.inputs) named.insert(input.name);
  for (auto* list : {&graph.outputs, &graph.value_infos})
    for (ValueInfo& value : *list) {
      named.insert(value.name);
      const Type* inferred = patient.TypeOf(value.name);
      if (!inferred || !inferred->known() || graph.FindInput(value.name)) continue;
      std::string before = ToText(value.type);
      value.type = Together(value.type, *inferred);
      if (ToText(value.type) != before)
        log.changes.push_back(Cat("'", Printable(value.name), "': ", before, " → ", value.type));
    }
  size_t added = 0;
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs) {
      const Type* inferred = output.empty() ? nullptr : patient.TypeOf(output);
      if (!inferred || !inferred->known() || (inferred->is_tensor() && !inferred->has_rank())) continue;
      if (node.op_type == "Constant" || !named.insert(output).second) continue;
      ValueInfo value;
      value.name = output;
      value.type = *inferred;
      graph.value_infos.push_back(std::move(value));
      ++added;
    }
  if (added) log.changes.push_back(Cat("shapes of ", added, " values between nodes are written down"));
}

}  // namespace

extern const Lint lint_shape_info;
constinit const Lint lint_shape_info = {
    .name = "shape-info",
    .meaning = "Shapes are declared, and are those that the operators give.",
    .remedy = "Let 'ferry doctor --fix' write down the inferred shapes.",
    .look = Look,
    .stage = 90,
    .fix = Fix,
};

}  // namespace ferry

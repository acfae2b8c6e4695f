// What 'ferry check' says, so that one command tells everything; nodes in the wrong order are put right.
#include "doctor/lint.h"
#include "engine/check_inference.h"
#include "graph/sort_nodes.h"

namespace ferry {
namespace {

// The lint shape-info speaks of these.
bool IsAboutShapes(std::string_view rule) { return rule == "inference.shape" || rule == "value.shape-missing"; }

void Look(const Patient& patient, FindingList& findings) {
  for (const Problem& problem : patient.problems()) {
    if (problem.severity == Severity::kNote || IsAboutShapes(problem.rule)) continue;
    Finding& finding = findings.Add(problem.place, problem.message);
    finding.severity = problem.severity;
    finding.evidence.emplace_back("rule", std::string(problem.rule));
    finding.remedy = problem.remedy;
    finding.fixable = problem.rule == "graph.order";
  }
}

void Fix(const Patient&, Model& model, FixLog& log) {
  if (SortNodes(model)) log.changes.push_back("nodes stand behind those whose results they read");
}

}  // namespace

extern const Lint lint_standard;
constinit const Lint lint_standard = {
    .name = "standard",
    .meaning = "The model is valid by the ONNX standard, as 'ferry check' sees it.",
    .severity = Severity::kError,
    .remedy = "Correct the model; 'ferry check' lists every reason.",
    .look = Look,
    .stage = 10,
    .fix = Fix,
};

}  // namespace ferry

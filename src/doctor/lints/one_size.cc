// Inputs that say any size will do, and constants inside that leave one.
#include "base/error.h"
#include "doctor/batch_plan.h"
#include "doctor/lint.h"

namespace ferry {
namespace {

// The lint baked-batch names every node of such a model, and mends it.
bool IsMendedAsBatch(const Graph& graph) {
  try {
    std::optional<BatchPlan> plan = FindBakedBatch(graph);
    return plan && plan->refusal.empty() && !plan->edits.empty();
  } catch (const Error&) {
    return false;
  }
}

void Look(const Patient& patient, FindingList& findings) {
  const RunnableSizes& runnable = patient.runnable_sizes();
  if (!runnable.is_only || IsMendedAsBatch(patient.inferred()->graph)) return;
  std::vector<std::string> sizes;
  for (const auto& [name, size] : runnable.sizes) sizes.push_back(Cat(name, " = ", size));
  Finding& finding =
      findings.Add({}, Cat("runs with ", Join(sizes, ", "), " only, though its inputs name these sizes"));
  finding.evidence.emplace_back("at others", runnable.why);
}

}  // namespace

extern const Lint lint_one_size;
constinit const Lint lint_one_size = {
    .name = "one-size",
    .meaning = "A model whose inputs name their sizes runs at more than one.",
    .remedy =
        "Export again without sizes taken from the example (int(x.shape[0]), .item(), constants), or declare the size.",
    .look = Look,
};

}  // namespace ferry

// A batch size that was written into the model: in the shapes of its inputs, or in constants inside.
#include "base/error.h"
#include "doctor/batch_fix.h"
#include "doctor/batch_plan.h"
#include "doctor/lint.h"
#include "doctor/proof.h"

namespace ferry {
namespace {

std::optional<BatchPlan> Plan(const Patient& patient) {
  if (!patient.inferred()) return std::nullopt;
  try {
    return FindBakedBatch(patient.inferred()->graph);
  } catch (const Error&) {  // a network that cannot be inferred is told of by the lint for the standard
    return std::nullopt;
  }
}

bool IsFixed(const Graph& graph) { return graph.FindInput(BatchInputs(graph)[0])->type.shape->front().known(); }

void Look(const Patient& patient, FindingList& findings) {
  std::optional<BatchPlan> plan = Plan(patient);
  if (!plan) return;
  const Graph& graph = patient.inferred()->graph;
  std::vector<std::string> inputs = BatchInputs(graph);
  if (IsFixed(graph)) {
    Finding& finding =
        findings.Add({.value = inputs[0]}, Cat("takes batches of ", plan->batch, " only: the first dimension of ",
                                               inputs.size() == 1 ? "the input" : "all inputs", " is fixed"));
    finding.evidence.emplace_back("inputs", Join(inputs, ", "));
    finding.evidence.emplace_back("shape", ToText(graph.FindInput(inputs[0])->type));
    if (!plan->refusal.empty()) {
      finding.fixable = false;
      finding.evidence.emplace_back("stays", Cat(ToText(plan->refused_at), ": ", plan->refusal));
      finding.remedy = "Export again with a dynamic batch (dynamic_axes, dynamic_shapes), where the network allows it.";
    }
  }
  for (const BatchEdit& edit : plan->edits) findings.Add(edit.place, edit.what).fixable = plan->refusal.empty();
}

void Fix(const Patient& patient, Model& model, FixLog& log) {
  std::optional<BatchPlan> plan = Plan(patient);
  if (!plan) return;
  if (!plan->refusal.empty()) {
    log.refusals.push_back(Cat(ToText(plan->refused_at), ": ", plan->refusal));
    return;
  }
  std::string name = FreeBatch(model, *plan);
  log.changes.push_back(Cat("the first dimension of the inputs is '", name, "' instead of ", plan->batch));
  for (const BatchEdit& edit : plan->edits)
    log.changes.push_back(Cat(ToText(edit.place), ": any size, no longer ", plan->batch));
}

void Prove(const Patient& before, const Model& mended, Proof& proof) {
  std::optional<BatchPlan> plan = Plan(before);
  Graph const& graph = mended.graph;
  std::string name = graph.FindInput(BatchInputs(graph)[0])->type.shape->front().symbol;
  ProveSamplesApart(mended, *plan, name, proof);
  if (!Holds(proof)) return;
  DoctorOptions plain;  // recordings may be of other sizes than the original takes
  ProveSameOutputs(Patient(before.model(), plain), mended, proof);
  std::shared_ptr<Session> session = Session::FromModel(CopyDeep(mended), {.optimize = false});
  for (const Trial& trial : before.trials())
    if (trial.recorded && !trial.outputs.empty())
      proof.push_back(CompareRun(Cat("recorded outputs of '", trial.name, "'"), *session, trial.inputs, trial.outputs));
}

}  // namespace

extern const Lint lint_baked_batch;
constinit const Lint lint_baked_batch = {
    .name = "baked-batch",
    .meaning = "The model takes batches of any size.",
    .remedy = "Export with a dynamic batch, or let 'ferry doctor --fix' set it free.",
    .look = Look,
    .stage = 40,
    .fix = Fix,
    .prove = Prove,
};

}  // namespace ferry

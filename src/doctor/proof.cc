#include "doctor/proof.h"

#include <algorithm>

#include "base/error.h"
#include "measure/difference.h"

namespace ferry {
namespace {

constexpr size_t kMostTrials = 8;

std::vector<std::string> SharedOutputs(const Model& before, const Model& mended) {
  std::vector<std::string> names;
  for (const ValueInfo& output : before.graph.outputs)
    for (const ValueInfo& other : mended.graph.outputs)
      if (output.name == other.name) names.push_back(output.name);
  return names;
}

}  // namespace

ProofStep CompareRun(std::string what, const Session& mended, const std::vector<NamedValue>& inputs,
                     const std::vector<NamedValue>& expected) {
  ProofStep step{.what = std::move(what), .holds = true};
  std::vector<std::string> names;
  for (const NamedValue& value : expected) names.push_back(value.first);
  try {
    std::vector<Value> results = mended.Run(inputs, names);
    for (size_t i = 0; i < names.size(); ++i) {
      Difference difference = Compare(results[i], expected[i].second, Tolerance{}, TypeRule::kRecorded);
      step.max_abs = std::max(step.max_abs, difference.max_abs);
      if (difference.within()) continue;
      step.holds = false;
      step.detail = Cat("'", Printable(names[i]), "': ", difference.Explain());
    }
  } catch (const Error& error) {
    step.holds = false;
    step.detail = error.message();
  }
  return step;
}

bool Holds(const Proof& proof) {
  return std::all_of(proof.begin(), proof.end(), [](const ProofStep& step) { return step.holds; });
}

namespace {

// Pushes a step for every trial that both models were run on. Gives the reason why there was none, else nothing.
std::string CompareTrials(const Patient& before, const Model& mended, Proof& proof) {
  const std::vector<Trial>& trials = before.trials();
  if (trials.empty()) return before.session() ? "no inputs can be made for it" : before.why_no_session();
  std::shared_ptr<Session> session = Session::FromModel(CopyDeep(mended), {.optimize = false});
  std::vector<std::string> names = SharedOutputs(before.model(), mended);
  std::string failure = "no recording fits it";
  bool compared = false;
  for (size_t i = 0; i < std::min(trials.size(), kMostTrials); ++i) {
    const Trial& trial = trials[i];
    if (!trial.fits) continue;
    std::vector<NamedValue> expected;
    try {
      std::vector<Value> results = before.session()->Run(trial.inputs, names);
      for (size_t k = 0; k < names.size(); ++k) expected.emplace_back(names[k], std::move(results[k]));
    } catch (const Error& error) {
      failure = Cat("inputs '", trial.name, "': ", error.message());
      continue;
    }
    proof.push_back(CompareRun(Cat("same outputs on inputs '", trial.name, "'"), *session, trial.inputs, expected));
    compared = true;
  }
  return compared ? std::string() : failure;
}

void Prove(const Patient& before, const Model& mended, Proof& proof, bool must_run) {
  try {
    std::string failure = CompareTrials(before, mended, proof);
    if (!failure.empty())
      proof.push_back({.what = "the original can be run, to compare with", .holds = !must_run, .detail = failure});
  } catch (const Error& error) {
    proof.push_back({.what = "the mended model can be run", .holds = false, .detail = error.message()});
  }
}

}  // namespace

void ProveSameOutputs(const Patient& before, const Model& mended, Proof& proof) { Prove(before, mended, proof, true); }

void ProveSameWhereItRuns(const Patient& before, const Model& mended, Proof& proof) {
  Prove(before, mended, proof, false);
}

}  // namespace ferry

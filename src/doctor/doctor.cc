#include "doctor/doctor.h"

#include <algorithm>

#include "base/error.h"
#include "doctor/lint.h"
#include "doctor/proof.h"

namespace ferry {
namespace {

constexpr size_t kMostPerLint = 100;

std::vector<const Lint*> ChosenLints(const DoctorOptions& options) {
  std::vector<std::string> names;
  for (const Lint* lint : AllLints()) names.emplace_back(lint->name);
  std::vector<const Lint*> chosen;
  for (const std::string& name : options.only) {
    const Lint* lint = FindLint(name);
    if (!lint) {
      std::string closest = ClosestName(name, names);
      Fail(ErrorCode::kInvalidArgument, "there is no lint '", Printable(name), "'",
           closest.empty() ? Cat("; known are ", Join(names, ", ")) : Cat("; did you mean '", closest, "'?"));
    }
    chosen.push_back(lint);
  }
  if (options.only.empty()) chosen.assign(AllLints().begin(), AllLints().end());
  return chosen;
}

std::vector<Finding> Look(const Lint& lint, const Patient& patient) {
  std::vector<Finding> findings;
  FindingList list(lint, findings);
  try {
    lint.look(patient, list);
  } catch (Error& error) {
    throw error.At(Cat("lint '", lint.name, "'"));
  }
  if (findings.size() > kMostPerLint) {
    size_t more = findings.size() - kMostPerLint;
    std::stable_sort(findings.begin(), findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
    findings.resize(kMostPerLint);
    list.Add({}, Cat(more, " more findings of this kind are not listed")).severity = Severity::kNote;
  }
  return findings;
}

// Tries one lint's fix on `model`; a fix whose proof fails leaves it as it was.
Mending Try(const Lint& lint, const Patient& patient, Model& model) {
  Mending mending{.lint = lint.name};
  Model mended = CopyDeep(model);
  FixLog log;
  try {
    lint.fix(patient, mended, log);
    mending.changes = std::move(log.changes);
    mending.refusals = std::move(log.refusals);
    if (mending.changes.empty()) return mending;
    (lint.prove ? lint.prove : ProveSameOutputs)(patient, mended, mending.proof);
    for (const ProofStep& step : mending.proof)
      if (!step.holds) mending.refusals.push_back(Cat("not changed: ", step.what, " does not hold: ", step.detail));
    mending.applied = Holds(mending.proof);
  } catch (const Error& error) {
    mending.refusals.push_back(error.message());
  }
  if (mending.applied) model = std::move(mended);
  return mending;
}

}  // namespace

std::span<const Lint* const> AllLints() { return {kLintTable, kLintTableSize}; }

const Lint* FindLint(std::string_view name) {
  for (const Lint* lint : AllLints())
    if (lint->name == name) return lint;
  return nullptr;
}

Finding& FindingList::Add(Place place, std::string message) {
  findings_.push_back({.lint = lint_.name,
                       .severity = lint_.severity,
                       .message = std::move(message),
                       .place = std::move(place),
                       .remedy = std::string(lint_.remedy),
                       .fixable = lint_.fix != nullptr});
  return findings_.back();
}

Place PlaceOf(const Node& node, std::string graph) {
  Place place{.graph = std::move(graph), .node = node.name, .op_type = node.op_type};
  for (const std::string& output : node.outputs)
    if (place.node.empty()) place.node = output;
  return place;
}

std::vector<Finding> Examine(const Model& model, const DoctorOptions& options) {
  std::vector<const Lint*> lints = ChosenLints(options);
  Patient patient(model, options);
  if (!options.data.empty()) patient.trials();  // unusable recordings are told of, whichever lints are asked for
  std::vector<Finding> findings;
  for (const Lint* lint : lints)
    for (Finding& finding : Look(*lint, patient)) findings.push_back(std::move(finding));
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

MendedModel Mend(const Model& model, const DoctorOptions& options) {
  std::vector<const Lint*> lints = ChosenLints(options);
  std::stable_sort(lints.begin(), lints.end(), [](const Lint* a, const Lint* b) { return a->stage < b->stage; });
  MendedModel mended{CopyDeep(model), {}};
  for (const Lint* lint : lints) {
    if (!lint->fix) continue;
    Model before = mended.model;
    Patient patient(before, options);
    if (Look(*lint, patient).empty()) continue;
    Mending mending = Try(*lint, patient, mended.model);
    if (!mending.changes.empty() || !mending.refusals.empty()) mended.mendings.push_back(std::move(mending));
  }
  return mended;
}

Json ToJson(const Mending& mending) {
  Json proof = Json::Array{};
  for (const ProofStep& step : mending.proof) {
    Json json = Json().Set("what", step.what).Set("holds", step.holds).Set("max_abs", step.max_abs);
    if (!step.detail.empty()) json.Set("detail", step.detail);
    proof.Add(std::move(json));
  }
  return Json()
      .Set("lint", mending.lint)
      .Set("applied", mending.applied)
      .Set("changes", Json::List(mending.changes))
      .Set("refusals", Json::List(mending.refusals))
      .Set("proof", std::move(proof));
}

}  // namespace ferry

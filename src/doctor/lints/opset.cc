// Opsets that a runtime does not take.
#include <algorithm>

#include "base/error.h"
#include "convert/convert.h"
#include "doctor/lint.h"

namespace ferry {
namespace {

constexpr int64_t kOldestTaken = 7;   // what current runtimes go back to
constexpr int64_t kPlainChoice = 13;  // when only "newer" is asked for: taken by all that are in use

struct Range {
  int64_t oldest = kOldestTaken, newest = 0;  // 0: open
};

Range CommonRange(const Patient& patient) {
  Range range;
  for (const Target& target : patient.targets()) {
    range.oldest = std::max(range.oldest, target.oldest_opset);
    if (target.newest_opset)
      range.newest = range.newest ? std::min(range.newest, target.newest_opset) : target.newest_opset;
  }
  return range;
}

void Look(const Patient& patient, FindingList& findings) {
  int64_t opset = patient.model().OpsetOf("");
  if (opset == 0) return;
  for (const Target& target : patient.targets()) {
    bool too_new = target.newest_opset && opset > target.newest_opset;
    bool too_old = target.oldest_opset && opset < target.oldest_opset;
    if (!too_new && !too_old) continue;
    Finding& finding =
        findings.Add({}, Cat("opset ", opset, " is ", too_new ? "newer" : "older", " than ", target.title, " takes"));
    finding.evidence = {{"target", target.name},
                        {"opsets", Cat(target.oldest_opset, " to ", target.newest_opset)},
                        {"source", Cat(target.source, ", ", target.date, "; ", target.opset_reason)}};
  }
  if (patient.targets().empty() && opset < kOldestTaken)
    findings.Add({}, Cat("opset ", opset, " is older than ", kOldestTaken, ", where current runtimes begin"))
        .evidence.emplace_back("opset", Cat(opset));
}

void Fix(const Patient& patient, Model& model, FixLog& log) {
  Range range = CommonRange(patient);
  int64_t opset = model.OpsetOf("");
  if (range.newest && range.newest < range.oldest) {
    log.refusals.push_back("no opset is taken by all targets");
    return;
  }
  int64_t goal = range.newest && opset > range.newest ? range.newest : std::max(range.oldest, kPlainChoice);
  if (range.newest) goal = std::min(goal, range.newest);
  model = ConvertOpset(model, goal);
  log.changes.push_back(Cat("opset ", opset, " → ", goal));
}

}  // namespace

extern const Lint lint_opset;
constinit const Lint lint_opset = {
    .name = "opset",
    .meaning = "The opset is one that the target runtime takes.",
    .remedy = "Convert the model: 'ferry doctor --fix' or 'ferry convert --opset N'.",
    .look = Look,
    .stage = 30,
    .fix = Fix,
};

}  // namespace ferry

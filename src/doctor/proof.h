// Proofs that a mended model is as good as the original: both are run, and their values held against each other.
#pragma once

#include "doctor/lint.h"

namespace ferry {

// All outputs that both models have are equal on every trial that the original can run. Does not hold when there is no
// such trial: what was not compared is not proved.
void ProveSameOutputs(const Patient& before, const Model& mended, Proof& proof);
// The same for changes that touch texts and files and no node: they hold where nothing can be run, and a step says so.
void ProveSameWhereItRuns(const Patient& before, const Model& mended, Proof& proof);

// One step: outputs of `mended` on `inputs` are `expected`.
ProofStep CompareRun(std::string what, const Session& mended, const std::vector<NamedValue>& inputs,
                     const std::vector<NamedValue>& expected);

bool Holds(const Proof& proof);

}  // namespace ferry

// Proofs that a mended model is as good as the original: both are run, and their values held against each other.
#pragma once

#include "doctor/lint.h"

namespace ferry {

// All outputs that both models have are equal on every trial. Holds without a word when nothing can be run; then a
// step says so.
void ProveSameOutputs(const Patient& before, const Model& mended, Proof& proof);

// One step: outputs of `mended` on `inputs` are `expected`.
ProofStep CompareRun(std::string what, const Session& mended, const std::vector<NamedValue>& inputs,
                     const std::vector<NamedValue>& expected);

bool Holds(const Proof& proof);

}  // namespace ferry

// Recorded inputs and outputs of a model: .npz files whose keys are the model's names, or in0, in1 … and out0, out1 …
// by position.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/session.h"

namespace ferry {

struct Recording {
  std::vector<NamedValue> inputs;
  std::vector<NamedValue> outputs;  // in the model's order; those that were recorded
};

// Throws when a name among these is no input of the model; says the nearest that is.
void RequireInputNames(const Session& session, std::span<const NamedValue> inputs);

// Throws when a key is neither an input nor an output of the model, or two keys mean the same one.
Recording ReadRecording(const std::string& path, const Session& session);

}  // namespace ferry

// Inputs to try a model with, and what numbers go through it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/session.h"
#include "measure/numbers.h"

namespace ferry {

struct Trial {
  std::string name;  // the recording's file, or "random", "zeros", "ones"
  std::vector<NamedValue> inputs;
  std::vector<NamedValue> outputs;  // as recorded
  bool recorded = false;
  bool fits = true;  // false: a recording of another batch size than the model takes
};

// The recordings in `paths`; when none of them fits, also inputs of random numbers, zeros and ones. Throws for
// recordings of other shapes and for inputs that hold NaN.
// Generated inputs have these sizes; names that are not among them have 1.
std::vector<Trial> GatherTrials(const Session& session, const std::vector<std::string>& paths,
                                const std::map<std::string, int64_t>& sizes = {});

struct TrialNumbers {
  const Trial* trial = nullptr;
  std::unordered_map<std::string, Numbers> values;  // floating-point values of the main graph, by name
  std::map<std::string, double> clipped;  // for the output of each QuantizeLinear: the share of elements cut off
};

// Runs the model on every trial. A trial that fails is left out. Generated ones end when the next would be likely to go
// beyond `budget_ms`; the first is always run.
std::vector<TrialNumbers> RunTrials(const Session& session, const std::vector<Trial>& trials, double budget_ms,
                                    ThreadPool& pool);

}  // namespace ferry

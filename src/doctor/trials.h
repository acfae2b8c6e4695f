// Inputs to try a model with, and what numbers go through it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/session.h"

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
std::vector<Trial> GatherTrials(const Session& session, const std::vector<std::string>& paths);

// What the elements of a floating-point value are like. Least and largest are over finite elements.
struct Numbers {
  int64_t count = 0;
  int64_t nans = 0, infinities = 0;
  double least = 0, largest = 0;
  double smallest = 0;         // the smallest magnitude above 0; 0 when there is none
  int64_t above_float16 = 0;   // finite, and infinite in float16
  int64_t below_float16 = 0;   // not 0, and 0 in float16
  int64_t below_bfloat16 = 0;  // not 0, and 0 in bfloat16
  int64_t masks = 0;           // among those above: at the negative end of float, as attention masks are
};

Numbers Count(const Tensor& tensor);
// No element is infinite or 0 in float16 that was not so before. Quick enough for hundreds of megabytes.
bool FitsFloat16(const Tensor& tensor);

struct TrialNumbers {
  const Trial* trial = nullptr;
  std::unordered_map<std::string, Numbers> values;  // floating-point values of the main graph, by name
  std::map<std::string, double> clipped;  // for the output of each QuantizeLinear: the share of elements cut off
};

// Runs the model on every trial. A trial that fails is left out. Generated ones end when `budget_ms` is used up.
std::vector<TrialNumbers> RunTrials(const Session& session, const std::vector<Trial>& trials, double budget_ms);

}  // namespace ferry

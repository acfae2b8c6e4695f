// Inputs for a model when nobody has any at hand: from a seed, so that every run sees the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/session.h"

namespace ferry {

struct RandomInputOptions {
  uint64_t seed = 1;
  std::map<std::string, int64_t> dimensions;  // by name; a dimension that is not here is 1
};

// Floats between -1 and 1. Integers that look up rows of a weight are below its number of rows; others are 1, which is
// safe as a size, a mask and a count. Throws when `dimensions` names one that no input has.
std::vector<NamedValue> MakeRandomInputs(const Session& session, const RandomInputOptions& options);

}  // namespace ferry

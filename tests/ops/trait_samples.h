// A node or two of every operator that says something of itself, with inputs to try it on.
#pragma once

#include <vector>

#include "graph/model.h"
#include "tensor/value.h"

namespace ferry::testing {

struct Sample {
  Node node;
  std::vector<Value> inputs;
};

// Images have two rows on axis 0, and so has no weight.
std::vector<Sample> TraitSamples();

}  // namespace ferry::testing

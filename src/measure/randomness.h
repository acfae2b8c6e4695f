// Which values of a graph are drawn by chance, so that no recording can say what they must be.
#pragma once

#include <limits>
#include <map>
#include <string>

#include "graph/model.h"
#include "tensor/value.h"

namespace ferry {

// What is known about a random value without drawing it.
struct RandomRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool whole = false;  // 0 and 1, class numbers: nothing between whole numbers
};

// The values that depend on an operator whose definition leaves the draw to the implementation (Bernoulli,
// RandomUniform, Multinomial …). A Dropout that names its seed is not among them: what it drops is defined.
std::map<std::string, RandomRange> FindRandomValues(const Model& model);

// Why `actual` can't be a draw like `recorded`: another type or shape, or a value outside the range; empty when it can.
std::string ExplainBadDraw(const Value& actual, const Value& recorded, const RandomRange& range);

}  // namespace ferry

// Values that can be made inside the result of the Concat that reads them, so that it has nothing to copy.
#pragma once

#include <vector>

#include "engine/plan.h"
#include "engine/plan_hints.h"

namespace ferry {

// See Compiler::PlaceParts.
std::vector<PartPlace> PlaceConcats(const Plan& plan, const std::vector<int>& viewed, const OuterFacts& facts);

}  // namespace ferry

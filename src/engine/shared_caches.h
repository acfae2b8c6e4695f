// Caches that grow where they lie: results that a caller may place in the memory of an input, because the step that
// makes the one from the other is the only one that reads it.
#pragma once

#include <span>
#include <vector>

#include "engine/plan.h"
#include "tensor/value.h"

namespace ferry {

// For each result of the plan the number of that input, -1 where there is none.
std::vector<int> SharedCacheInputs(const Plan& plan);

// Whether `place` is exactly where input `cache` lies, and no other input lies there.
bool IsSharedCache(const Tensor& place, std::span<const Value> inputs, int cache);

}  // namespace ferry

// Which weights a program reads in packed form alone.
#pragma once

#include "engine/plan.h"
#include "engine/weight_cache.h"

namespace ferry {

// Without those that share bytes with others.
WeightCache::Addresses WeightsReadPacked(const Plan& plan);

}  // namespace ferry

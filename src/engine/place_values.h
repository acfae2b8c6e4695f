// Gives every value of a plan its place: values that can be the same memory share it, the others are packed into one
// arena for each memory space by lifetime.
#pragma once

#include <vector>

#include "engine/make_plan.h"

namespace ferry {

// `operators`: of each step, null for chains and copies. Steps that have nothing left to do are dropped, and their
// kernels with them.
void PlaceValues(PlannedProgram& program, std::vector<const Operator*> operators, const Compiler& hints,
                 const OuterFacts& facts);

}  // namespace ferry

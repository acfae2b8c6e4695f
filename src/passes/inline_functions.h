// Replaces every call of a model's own function by the function's body.
#pragma once

#include "graph/model.h"

namespace ferry {

// Opsets must be upgraded first, so that bodies and graph speak of the same operators. Calls that never end are
// refused, and so are those that make more nodes than the limits in force allow.
void InlineFunctions(Model& model);

}  // namespace ferry

// Operators that are a few standard ones in one (ops/support/compose.h) become these, as far as what is known of their
// inputs allows: passes and kernels of the standard ones serve them then. The others stay and run in one.
#pragma once

#include "graph/model.h"

namespace ferry {

// Bodies included. The model's opsets must be the newest and its functions inlined.
void ExpandComposed(Model& model);

}  // namespace ferry

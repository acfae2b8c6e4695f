// Rules and kernels read the inputs of a node by number: a node that has too few of them is refused first.
#pragma once

#include "graph/model.h"

namespace ferry {

// Throws kInvalidModel where the node has fewer or more inputs or outputs than its operator's newest schema allows. An
// operator without a schema passes.
void RequireArity(const Node& node);

}  // namespace ferry

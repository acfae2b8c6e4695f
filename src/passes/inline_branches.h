// If nodes whose condition is known become the nodes of the branch that is taken, in bodies too.
#pragma once

#include "ops/infer_graph.h"

namespace ferry {

bool InlineBranches(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

// Transposes of transposes become one or none; those and casts that change nothing, and Identity, vanish.
#pragma once

#include "ops/infer_graph.h"

namespace ferry {

bool CancelTransposes(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

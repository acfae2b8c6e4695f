// Nodes that give their input back unchanged: Identity, casts to the type that is there, reshapes to the shape that is
// there, transposes in order, slices of everything, padding with nothing, sums of one, products with 1, dropout outside
// training. Values that leave the graph keep their names.
#pragma once

#include "ops/infer_graph.h"

namespace ferry {

bool RemoveNoOps(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

// Halves that are joined, shuffled and cut again, as ShuffleNet does in every block, become one step that reads both
// halves and writes both.
#pragma once

#include "ops/infer_graph.h"

namespace ferry {

// What is known of the graph's values, those from outside included, may lack the newest: it is added.
bool FuseShuffle(Graph& graph, GraphFacts& facts);

}  // namespace ferry

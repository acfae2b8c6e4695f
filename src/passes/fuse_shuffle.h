// Halves that are joined, shuffled and cut again, as ShuffleNet does in every block, become one step that reads both
// halves and writes both.
#pragma once

#include "ops/infer_graph.h"

namespace ferry {

// `known` says what is known of inputs and of values from outside.
bool FuseShuffle(Graph& graph, const FactsByName& known = {});

}  // namespace ferry

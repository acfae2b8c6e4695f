// Moves convolutions, and whatever can follow them, to channels-last images: [N, H, W, C] inside, transposes only where
// a value leaves such a region.
#pragma once

#include "ops/infer_graph.h"

namespace ferry {

// What is known of the graph's values, those from outside included, may lack the newest: it is added.
bool MoveChannelsLast(Graph& graph, GraphFacts& facts);

}  // namespace ferry

// Moves convolutions, and whatever can follow them, to channels-last images: [N, H, W, C] inside, transposes only where
// a value leaves such a region.
#pragma once

#include "ops/infer_graph.h"

namespace ferry {

// `known` says what is known of inputs and of values from outside.
bool MoveChannelsLast(Graph& graph, const FactsByName& known = {});

}  // namespace ferry

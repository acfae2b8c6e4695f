// Moves convolutions, and whatever can follow them, to channels-last images: [N, H, W, C] inside, transposes only where
// a value leaves such a region.
#pragma once

#include "graph/model.h"

namespace ferry {

bool MoveChannelsLast(Graph& graph);

}  // namespace ferry

// A convolution followed by a product or a sum with one number, or one for each channel: both go into its weights and
// bias.
#pragma once

#include "graph/model.h"

namespace ferry {

bool FoldScaling(Graph& graph);

}  // namespace ferry

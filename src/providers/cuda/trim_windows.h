// Taps of a convolution that no pixel's window has on the image add nothing: they go, as those of large dilations over
// small images do.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry::cuda {

bool TrimWindows(Graph& graph, const GraphFacts& facts);

}  // namespace ferry::cuda

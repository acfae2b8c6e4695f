// Concat of channels and the scaling that a convolution begins with, as one step.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry::cuda {

// Takes an NhwcConv's factor, offset and activation before it into the Concat that it alone reads. Values that are made
// have no facts yet.
bool FuseJoinScaled(Graph& graph, const GraphFacts& facts);

}  // namespace ferry::cuda

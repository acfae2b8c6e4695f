// Elementwise operators that follow each other become one node, and that one kernel.
#pragma once

#include "ops/infer_graph.h"

namespace ferry::cuda {

// Values between them, which nothing else reads, have the shape of the last one's; what is known of them decides.
bool FuseChains(Graph& graph, const GraphFacts& facts);

}  // namespace ferry::cuda

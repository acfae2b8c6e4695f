// LayerNorm and RMSNorm over the last axis, spelled out as means and roots: one node.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

bool FuseNormalization(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

// GELU (with erf and with tanh), SiLU and hard-swish as exporters spell them out: one Gelu, Swish or HardSwish node.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

bool FuseActivation(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

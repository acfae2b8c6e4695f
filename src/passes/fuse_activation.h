// GELU (with erf and with tanh) and SiLU as exporters spell them out: one Gelu or Swish node.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

bool FuseActivation(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

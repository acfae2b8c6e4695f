// DequantizeLinear → operator → QuantizeLinear becomes one step on 8-bit integers. What does not fit stays as it is.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

bool FoldQdq(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

// A product with constant weights of 4 or 8 bits that DequantizeLinear makes floats of, by blocks of depths or by
// columns: one BlockedMatMul, which reads the weights as they are.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

bool FuseBlockedMatMul(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

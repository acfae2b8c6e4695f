// MatMul and Gemm with a constant matrix, the bias, the factors, the sum and the activation after them: one
// FusedMatMul.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

// What is known of the graph's values may lack the newest: it is added.
bool FuseMatMul(Graph& graph, GraphFacts& facts);

}  // namespace ferry

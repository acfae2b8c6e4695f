// MatMul and Gemm with a constant matrix, the bias, the sum and the activation after them: one FusedMatMul.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

bool FuseMatMul(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

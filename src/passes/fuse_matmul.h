// MatMul and Gemm with a constant matrix, the bias, the factors, the sum and the activation after them: one
// FusedMatMul.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

// `facts` may be from before the images were turned; `known` is what is given of the graph's inputs.
bool FuseMatMul(Graph& graph, const GraphFacts& facts, const FactsByName& known);

}  // namespace ferry

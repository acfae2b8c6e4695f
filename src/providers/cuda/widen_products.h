// Products of small floats that are converted to float32 at once: the product writes float32 itself.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry::cuda {

// Joins FusedMatMul and MatMul by a constant with the Cast that alone reads them. The node's body is both of them, its
// own attributes are the product's.
bool WidenProducts(Graph& graph, const GraphFacts& facts);
bool IsWidenedProduct(const Node& node);

}  // namespace ferry::cuda

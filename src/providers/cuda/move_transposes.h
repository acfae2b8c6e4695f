// Transposes of rows move through products, to where attention reads and writes by strides and takes them up.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry::cuda {

// Transpose, product, attention becomes product, Transpose, attention; and attention, Transpose, product, Transpose
// becomes attention, Transpose, product. Rows are only put in another order, so products stay what they are. Shapes are
// known; what is new gets its facts.
bool MoveTransposes(Graph& graph, GraphFacts& facts);

}  // namespace ferry::cuda

// MatMulInteger, the scales that turn its sums into floats, and the bias after them become one step, as dynamic
// quantization writes them: (a · w) · (a_scale · w_scale) + bias.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

bool FuseDynamicMatMul(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

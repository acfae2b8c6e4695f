// softmax(q · kᵀ · scale + mask) · v, as exporters write it, with the transpositions around it: one FusedAttention.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

bool FuseAttention(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

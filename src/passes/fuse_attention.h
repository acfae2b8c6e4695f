// softmax(q · kᵀ · scale + mask) · v, as exporters write it, with the transpositions around it: one FusedAttention.
// With flags also where scores are chosen by truth values (masked_fill), and rows in which nothing is left become
// zeros.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

enum class AttentionFlags { kLeft, kTaken };

bool FuseAttention(Graph& graph, const GraphFacts& facts, AttentionFlags flags);

}  // namespace ferry

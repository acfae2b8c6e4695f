// Rotary position embedding as exporters write it (halves turned by Slice or Split, Neg and Concat; neighbours turned
// by strided slices): one FusedRotary.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

bool FuseRotary(Graph& graph, const GraphFacts& facts);

}  // namespace ferry

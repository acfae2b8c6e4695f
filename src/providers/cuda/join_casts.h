// Concat of values that are converted before or behind it, as one step: caches of keys and values that the caller keeps
// in float32.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry::cuda {

// Takes Casts between float32 and a small float into the Concat that reads them, and a Cast behind it becomes a Concat
// of its own. Values that are made keep their names.
bool FuseJoinCasts(Graph& graph, const GraphFacts& facts);

}  // namespace ferry::cuda

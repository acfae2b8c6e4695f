// Nodes whose results inference knows (sizes, and what is computed from them) become constants, in bodies too.
#pragma once

#include "ops/infer_graph.h"

namespace ferry {

bool FoldKnown(Graph& graph, const GraphFacts& facts, bool keep_codes = false);

}  // namespace ferry

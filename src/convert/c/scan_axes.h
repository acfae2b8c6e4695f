// A Scan along other axes than the first becomes one along the first, between Transposes.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry::c {

// True where something was changed: facts must then be found again.
bool ScanAlongFirstAxes(Graph& graph, const GraphFacts& facts);

}  // namespace ferry::c

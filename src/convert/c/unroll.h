// A Loop whose turns are counted beforehand and whose shapes change from turn to turn, written out.
#pragma once

#include "ops/infer_graph.h"

namespace ferry::c {

// Whether something changed: facts must be found anew then.
bool UnrollLoops(Graph& graph, const GraphFacts& facts);

}  // namespace ferry::c

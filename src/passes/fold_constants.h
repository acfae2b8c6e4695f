// Nodes whose inputs are all constants are computed once per model, where that does not make the model much larger.
#pragma once

#include "graph/model.h"

namespace ferry {

bool FoldConstants(Graph& graph);

}  // namespace ferry

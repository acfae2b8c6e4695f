// Nodes whose inputs are all constants are computed once per model, where that does not make the model much larger.
#pragma once

#include "graph/model.h"

namespace ferry {

// With `keep_codes` weights in fewer bits stay so, whoever reads them: for files rather than runs.
bool FoldConstants(Graph& graph, bool keep_codes = false);

}  // namespace ferry

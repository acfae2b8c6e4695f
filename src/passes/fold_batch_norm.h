// Batch normalisation with constant statistics right after Conv, ConvTranspose or Gemm: scaled into their weights.
#pragma once

#include "graph/model.h"

namespace ferry {

// `keep_names`: changed weights that nothing else reads stay under their names, as an export wants it. A running engine
// gives them new ones: what it makes of weights is kept by name.
bool FoldBatchNorm(Graph& graph, bool keep_names = false);

}  // namespace ferry

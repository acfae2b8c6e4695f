// Batch normalisation with constant statistics right after Conv, ConvTranspose or Gemm: scaled into their weights.
#pragma once

#include "graph/model.h"

namespace ferry {

bool FoldBatchNorm(Graph& graph);

}  // namespace ferry

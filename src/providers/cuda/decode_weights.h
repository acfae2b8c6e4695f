// Weights that a DequantizeLinear decodes are decoded once: kernels of the device read them as floats.
#pragma once

#include "graph/model.h"

namespace ferry::cuda {

void DecodeWeights(Graph& graph);

}  // namespace ferry::cuda

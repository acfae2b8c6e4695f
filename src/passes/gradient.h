// Replaces Gradient nodes (ai.onnx.preview.training) by nodes that compute the derivatives: reverse mode, written out
// as ordinary operators, so that everything downstream (folding, fusion, providers, another Gradient) sees nothing
// special.
#pragma once

#include "graph/model.h"

namespace ferry {

// Opsets must be upgraded and functions inlined. True when the model had a Gradient node. An operator between the
// variables and the result that has no rule is an error that names it.
bool ExpandGradients(Model& model);

}  // namespace ferry

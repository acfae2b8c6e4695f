// What follows a channels-last convolution (bias, sum with another image, activation) becomes part of its step, and so
// does a batch norm in front of a 1×1 convolution.
#pragma once

#include "ops/infer_graph.h"

namespace ferry {

// `known` says what is known of inputs and of values from outside.
bool FuseConv(Graph& graph, const FactsByName& known = {});

}  // namespace ferry

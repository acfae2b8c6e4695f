// What follows a channels-last convolution (bias, sum with another image, activation) becomes part of its step, and so
// does a batch norm in front of a 1×1 convolution.
#pragma once

#include "ops/infer_graph.h"

namespace ferry {

// What is known of the graph's values, those from outside included, may lack the newest: it is added.
bool FuseConv(Graph& graph, GraphFacts& facts);

}  // namespace ferry

// Attention in shifted windows, as exporters write it: scores and a bias, taken apart into images and windows for a
// mask of each window, and put together again. The masks become one addend of the scores.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry::cuda {

// Softmax(Reshape(Reshape(scores + bias) + mask)) becomes Softmax(scores + Reshape(Expand(mask + bias))). Shapes are
// known; what is new gets its facts.
bool JoinWindowMasks(Graph& graph, GraphFacts& facts);

}  // namespace ferry::cuda

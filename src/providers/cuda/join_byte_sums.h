// A QuantizedAdd behind a QuantizedNhwcConv that nobody else reads becomes part of its kernel: a chain of the two
// nodes.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry::cuda {

bool JoinByteSums(Graph& graph, const GraphFacts& facts);
// The two nodes of such a chain, the convolution first; null where it is another one.
const Graph* BodyWithSum(const Node& chain);
// Whether the device has a kernel for such a chain.
bool IsTakenWithSum(const Node& conv, const Shape& x, const Tensor& w);

}  // namespace ferry::cuda

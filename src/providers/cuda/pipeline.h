// The rewrites that suit a GPU: the CPU's fusions whose results have kernels on the device, and chains of elementwise
// operators.
#pragma once

#include <memory>

#include "ops/infer_graph.h"
#include "providers/cuda/lower_floats.h"

namespace ferry::cuda {

void Rewrite(Graph& graph, const Settings& settings);
std::shared_ptr<Graph> RewriteForShapes(const Graph& graph, const FactsByName& inputs, GraphFacts& facts,
                                        const Settings& settings, LoweredWeights& weights);

}  // namespace ferry::cuda

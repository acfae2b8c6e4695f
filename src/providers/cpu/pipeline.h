// The rewrites that make a prepared graph faster without changing its answers beyond rounding.
#pragma once

#include <memory>

#include "ops/infer_graph.h"

namespace ferry {

void Optimize(Graph& graph);

// Rewrites an optimised graph once more for inputs of known shapes where that decides branches or shows convolutions
// their images; null when there is nothing of the kind. `facts` become those of the graph that is returned, names that
// are gone among them. No weights are made: what kernels made of them for other shapes still serves.
std::shared_ptr<Graph> Specialize(const Graph& graph, const FactsByName& inputs, GraphFacts& facts);

}  // namespace ferry

// Attention reads its operands where the products before it left them: transposes, slices, splits and the choice of one
// of several are offsets and strides, not copies.
#pragma once

#include "ops/infer_graph.h"

namespace ferry::cuda {

// For attention that runs as one kernel; `compute_major`: of the device. `facts` become those of the graph after.
void StrideAttention(Graph& graph, GraphFacts& facts, bool tf32, int compute_major);

// Products of one value with several constants, whose results only views read, become one product and a split: the
// queries, keys and values of attention.
void MergeProjections(Graph& graph);

}  // namespace ferry::cuda

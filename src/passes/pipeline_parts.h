// What the pipelines of providers and converters share.
#pragma once

#include "graph/model.h"
#include "ops/infer_graph.h"

namespace ferry {

template <class Visit>
void ForEachBody(Graph& graph, const Visit& visit) {
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes)
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body) visit(**body);
}

// Constants are folded and equal nodes shared, in bodies too.
void FoldEverywhere(Graph& graph);

// Nodes whose rule fails leave their outputs unknown; weights are known wherever they lie.
InferOptions TolerantInference(int64_t largest_computed = InferOptions().largest_computed);

}  // namespace ferry

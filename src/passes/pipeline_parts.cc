#include "passes/pipeline_parts.h"

#include "passes/common_subexpressions.h"
#include "passes/fold_constants.h"

namespace ferry {

void FoldEverywhere(Graph& graph) {
  FoldConstants(graph);
  ShareCommonSubexpressions(graph);
  ForEachBody(graph, FoldEverywhere);
}

InferOptions TolerantInference(int64_t largest_computed) {
  InferOptions options;
  options.weights_anywhere = true;
  options.largest_computed = largest_computed;
  options.on_error = [](const Node&, const Error&) {};
  return options;
}

}  // namespace ferry

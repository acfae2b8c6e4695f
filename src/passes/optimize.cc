#include "passes/optimize.h"

#include "passes/channels_last.h"
#include "passes/fold_batch_norm.h"
#include "passes/fold_constants.h"
#include "passes/fuse_activation.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_conv.h"
#include "passes/fuse_matmul.h"
#include "passes/fuse_normalization.h"

namespace ferry {

void Optimize(Graph& graph) {
  FoldConstants(graph);
  // Passes keep the names of the values they leave, so what is found here stays true for all of them.
  InferOptions options;
  options.largest_computed = 256;
  options.on_error = [](const Node&, const Error&) {};
  GraphFacts facts = InferGraph(graph, {}, options);
  FuseActivation(graph, facts);
  FuseNormalization(graph, facts);
  FuseAttention(graph, facts);
  FoldBatchNorm(graph);
  MoveChannelsLast(graph);
  FuseConv(graph);
  FuseMatMul(graph, facts);
}

}  // namespace ferry

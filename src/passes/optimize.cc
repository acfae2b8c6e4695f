#include "passes/optimize.h"

#include "passes/channels_last.h"
#include "passes/fold_batch_norm.h"
#include "passes/fuse_conv.h"
#include "passes/fuse_matmul.h"

namespace ferry {

void Optimize(Graph& graph) {
  FoldBatchNorm(graph);
  MoveChannelsLast(graph);
  FuseConv(graph);
  FuseMatMul(graph);
}

}  // namespace ferry

#include "convert/c/rewrite.h"

#include "convert/c/scan_axes.h"
#include "convert/c/unroll.h"
#include "engine/prepare.h"
#include "graph/scopes.h"
#include "passes/cancel_transposes.h"
#include "passes/channels_last.h"
#include "passes/fold_batch_norm.h"
#include "passes/fold_known.h"
#include "passes/fold_pad.h"
#include "passes/fold_qdq.h"
#include "passes/fold_scaling.h"
#include "passes/fuse_activation.h"
#include "passes/fuse_conv.h"
#include "passes/fuse_matmul.h"
#include "passes/fuse_normalization.h"
#include "passes/inline_branches.h"
#include "passes/pipeline_parts.h"
#include "passes/remove_no_ops.h"
#include "passes/share_constants.h"

namespace ferry::c {
namespace {

void Fuse(Graph& graph, GraphFacts& facts) {
  CancelTransposes(graph, facts);
  FuseActivation(graph, facts);
  FuseNormalization(graph, facts);
  FoldPad(graph);
  FoldScaling(graph);
  FoldBatchNorm(graph);
  FoldScaling(graph);
  MoveChannelsLast(graph, facts);
  FuseConv(graph, facts);
  FuseMatMul(graph, facts);
}

}  // namespace

RewrittenGraph RewriteForC(const Model& model, const FactsByName& inputs) {
  RewrittenGraph made{PrepareGraph(model, 1), {}, {}};
  Graph& graph = made.graph;
  ShareConstants(graph);
  FoldEverywhere(graph);
  made.scales = FindIoScales(graph);
  // Quantised weights must be seen as they are: what is computed from them comes later.
  constexpr int64_t kSmall = 256, kLarge = 1 << 16;
  made.facts = InferGraph(graph, inputs, TolerantInference(kSmall));
  FoldQdq(graph, made.facts);
  do {
    made.facts = InferGraph(graph, inputs, TolerantInference(kLarge));
    FoldKnown(graph, made.facts);
  } while (InlineBranches(graph, made.facts) || UnrollLoops(graph, made.facts) ||
           ScanAlongFirstAxes(graph, made.facts));
  ShareConstants(graph);
  RemoveNoOps(graph, made.facts);
  Fuse(graph, made.facts);
  FoldEverywhere(graph);
  made.facts = InferGraph(graph, inputs, TolerantInference(kLarge));
  return made;
}

}  // namespace ferry::c

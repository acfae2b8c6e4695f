#include "providers/cuda/pipeline.h"

#include "passes/cancel_transposes.h"
#include "passes/channels_last.h"
#include "passes/common_subexpressions.h"
#include "passes/fold_batch_norm.h"
#include "passes/fold_constants.h"
#include "passes/fold_known.h"
#include "passes/fold_pad.h"
#include "passes/fold_qdq.h"
#include "passes/fold_scaling.h"
#include "passes/fuse_activation.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_conv.h"
#include "passes/fuse_matmul.h"
#include "passes/fuse_normalization.h"
#include "passes/fuse_rotary.h"
#include "passes/inline_branches.h"
#include "passes/pipeline_parts.h"
#include "passes/remove_no_ops.h"
#include "passes/share_constants.h"
#include "providers/cuda/decode_weights.h"
#include "providers/cuda/fuse_chains.h"
#include "providers/cuda/join_byte_sums.h"
#include "providers/cuda/join_casts.h"
#include "providers/cuda/join_scaled.h"
#include "providers/cuda/move_transposes.h"
#include "providers/cuda/stride_attention.h"
#include "providers/cuda/trim_windows.h"
#include "providers/cuda/widen_products.h"
#include "providers/cuda/window_masks.h"

namespace ferry::cuda {
namespace {

// Whatever can be bytes on tensor cores; the weights of the rest are decoded afterwards.
void QuantizedSteps(Graph& graph) {
  FoldConstants(graph);
  const GraphFacts facts = InferGraph(graph, {}, TolerantInference());
  FoldQdq(graph, facts);
}

void Fuse(Graph& graph, GraphFacts& facts) {
  CancelTransposes(graph, facts);
  FuseActivation(graph, facts);
  FuseNormalization(graph, facts);
  FuseRotary(graph, facts);
  FuseAttention(graph, facts, AttentionFlags::kLeft);
  FoldPad(graph);
}

void FuseWithWeights(Graph& graph, GraphFacts& facts) {
  MoveChannelsLast(graph, facts);
  FuseConv(graph, facts);
  FuseMatMul(graph, facts);
}

}  // namespace

// Bodies of If, Loop and Scan run on the host and stay as they are.
void Rewrite(Graph& graph, const Settings& settings) {
  QuantizedSteps(graph);
  DecodeWeights(graph);
  ShareConstants(graph);
  FoldConstants(graph);
  ShareCommonSubexpressions(graph);
  GraphFacts facts = InferGraph(graph, {}, TolerantInference(256));
  Fuse(graph, facts);
  FoldScaling(graph);  // sums that stand for a bias, which a batch norm may follow
  FoldBatchNorm(graph);
  FoldScaling(graph);
  FuseWithWeights(graph, facts);
  if (settings.tf32 || settings.lower != DType::kUndefined) MergeProjections(graph);
}

std::shared_ptr<Graph> RewriteForShapes(const Graph& graph, const FactsByName& inputs, GraphFacts& facts,
                                        const Settings& settings, LoweredWeights& weights) {
  auto special = std::make_shared<Graph>(CopyDeep(graph));
  do {
    facts = InferGraph(*special, inputs, TolerantInference());
    FoldKnown(*special, facts);
  } while (InlineBranches(*special, facts));
  RemoveNoOps(*special, facts);
  ShareConstants(*special);
  if (settings.tf32 || settings.lower != DType::kUndefined) JoinWindowMasks(*special, facts);
  Fuse(*special, facts);
  MoveTransposes(*special, facts);
  FuseWithWeights(*special, facts);
  InferNew(*special, facts);
  if (TrimWindows(*special, facts)) InferNew(*special, facts);
  if (settings.lower != DType::kUndefined) LowerFloats(*special, facts, settings.lower, weights);
  if (settings.lower != DType::kUndefined && FuseJoinCasts(*special, facts)) InferNew(*special, facts);
  if (settings.tf32 || settings.lower != DType::kUndefined) {
    StrideAttention(*special, facts, settings.tf32, settings.device ? settings.device->facts().compute_major : 9);
    InferNew(*special, facts);
  }
  if (settings.lower != DType::kUndefined && WidenProducts(*special, facts)) InferNew(*special, facts);
  if (FuseJoinScaled(*special, facts)) InferNew(*special, facts);
  if (JoinByteSums(*special, facts)) InferNew(*special, facts);
  if (FuseChains(*special, facts)) InferNew(*special, facts);
  return special;
}

}  // namespace ferry::cuda

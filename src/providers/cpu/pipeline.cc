#include "providers/cpu/pipeline.h"

#include "graph/scopes.h"
#include "passes/cancel_transposes.h"
#include "passes/channels_last.h"
#include "passes/fold_batch_norm.h"
#include "passes/fold_known.h"
#include "passes/fold_pad.h"
#include "passes/fold_qdq.h"
#include "passes/fold_scaling.h"
#include "passes/fuse_activation.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_blocked_matmul.h"
#include "passes/fuse_conv.h"
#include "passes/fuse_dynamic_matmul.h"
#include "passes/fuse_matmul.h"
#include "passes/fuse_normalization.h"
#include "passes/fuse_rotary.h"
#include "passes/fuse_shuffle.h"
#include "passes/inline_branches.h"
#include "passes/match.h"
#include "passes/pipeline_parts.h"
#include "passes/share_constants.h"
#include "passes/widen_halves.h"

namespace ferry {

namespace {

enum class Stage { kOnce, kForShapes };

void Fuse(Graph& graph, GraphFacts& facts, Stage stage) {
  CancelTransposes(graph, facts);
  FoldQdq(graph, facts);
  FuseDynamicMatMul(graph, facts);
  FuseBlockedMatMul(graph, facts);
  FuseActivation(graph, facts);
  FuseNormalization(graph, facts);
  FuseRotary(graph, facts);
  FuseAttention(graph, facts, AttentionFlags::kTaken);
  FoldPad(graph);
  if (stage == Stage::kOnce) {
    FoldScaling(graph);  // sums that stand for a bias, which a batch norm may follow
    FoldBatchNorm(graph);
    FoldScaling(graph);
  }
  MoveChannelsLast(graph, facts);
  FuseConv(graph, facts);
  FuseShuffle(graph, facts);
  FuseMatMul(graph, facts);
  if (stage == Stage::kForShapes) InferNew(graph, facts);  // programs are built with them
}

void FuseBodies(Graph& graph, const FactsByName& around, GraphFacts& facts, Stage stage) {
  ForEachBody(graph, [&](Graph& body) {
    GraphFacts inside;
    auto inferred = facts.bodies.find(&body);
    const bool is_known = inferred != facts.bodies.end();
    if (is_known) {
      inside.values = std::move(inferred->second);
      InferNew(body, inside);
    }
    for (const std::string& name : CapturedNames(body))
      if (auto found = around.find(name); found != around.end()) inside.values[name] = found->second;
    Fuse(body, inside, stage);
    FuseBodies(body, inside.values, facts, stage);
    if (is_known) facts.bodies[&body] = std::move(inside.values);
  });
}

// Passes keep the names of the values they leave, so what is known stays true for all of them; what they add to the
// graph they add to the facts.
void FuseEverywhere(Graph& graph, GraphFacts& facts, Stage stage) {
  Fuse(graph, facts, stage);
  FuseBodies(graph, facts.values, facts, stage);
}

bool HasPlainConv(const Graph& graph) {
  bool found = false;
  ForEachGraph(graph, [&](const Graph& inner) {
    for (const Node& node : inner.nodes)
      found |= IsStandard(node, "Conv") && node.HasInput(1) && inner.FindInitializer(node.inputs[1]);
  });
  return found;
}

}  // namespace

void Optimize(Graph& graph) {
  const WidenedWeights weights = WidenHalves(graph);
  ShareConstants(graph);
  FoldEverywhere(graph);
  GraphFacts facts = InferGraph(graph, {}, TolerantInference(256));
  FuseEverywhere(graph, facts, Stage::kOnce);
  NarrowMatrices(graph, weights);
}

std::shared_ptr<Graph> Specialize(const Graph& graph, const FactsByName& inputs, GraphFacts& facts) {
  bool decides = false;
  ForEachGraph(graph, [&](const Graph& inner) {
    for (const Node& node : inner.nodes) decides |= IsStandard(node, "If");
  });
  if (!decides && !HasPlainConv(graph)) return nullptr;
  auto special = std::make_shared<Graph>(CopyDeep(graph));
  const InferOptions options = TolerantInference();
  do {
    facts = InferGraph(*special, inputs, options);
    FoldKnown(*special, facts);
  } while (InlineBranches(*special, facts));
  ShareConstants(*special);
  FuseEverywhere(*special, facts, Stage::kForShapes);
  return special;
}

}  // namespace ferry

#include "passes/optimize.h"

#include "passes/channels_last.h"
#include "passes/fold_batch_norm.h"
#include "passes/fold_constants.h"
#include "passes/fold_pad.h"
#include "passes/fold_scaling.h"
#include "passes/fuse_activation.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_conv.h"
#include "passes/fuse_matmul.h"
#include "passes/fuse_normalization.h"

namespace ferry {

namespace {

template <class Visit>
void ForEachBody(Graph& graph, const Visit& visit) {
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes)
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body) visit(**body);
}

void FoldEverywhere(Graph& graph) {
  FoldConstants(graph);
  ForEachBody(graph, FoldEverywhere);
}

void Fuse(Graph& graph, const GraphFacts& facts) {
  FuseActivation(graph, facts);
  FuseNormalization(graph, facts);
  FuseAttention(graph, facts);
  FoldPad(graph);
  FoldBatchNorm(graph);
  FoldScaling(graph);
  MoveChannelsLast(graph);
  FuseConv(graph);
  FuseMatMul(graph, facts);
}

void FuseBodies(Graph& graph, const GraphFacts& facts) {
  ForEachBody(graph, [&](Graph& body) {
    auto known = facts.bodies.find(&body);
    GraphFacts inside;
    if (known != facts.bodies.end()) inside.values = known->second;
    Fuse(body, inside);
    FuseBodies(body, facts);
  });
}

}  // namespace

void Optimize(Graph& graph) {
  FoldEverywhere(graph);
  // Passes keep the names of the values they leave, so what is found here stays true for all of them.
  InferOptions options;
  options.largest_computed = 256;
  options.on_error = [](const Node&, const Error&) {};
  GraphFacts facts = InferGraph(graph, {}, options);
  Fuse(graph, facts);
  FuseBodies(graph, facts);
}

}  // namespace ferry

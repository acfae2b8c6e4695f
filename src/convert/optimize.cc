#include "convert/optimize.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "convert/convert.h"
#include "engine/prepare.h"
#include "graph/editor.h"
#include "onnx/schema.h"
#include "ops/infer_graph.h"
#include "passes/cancel_transposes.h"
#include "passes/common_subexpressions.h"
#include "passes/fold_batch_norm.h"
#include "passes/fold_constants.h"
#include "passes/fold_known.h"
#include "passes/fold_pad.h"
#include "passes/fold_scaling.h"
#include "passes/inline_branches.h"
#include "passes/remove_no_ops.h"

namespace ferry {
namespace {

size_t CountNodes(const Graph& graph) {
  size_t count = 0;
  ForEachGraph(graph, [&](const Graph& inner) { count += inner.nodes.size(); });
  return count;
}

size_t WeightBytes(const Graph& graph) {
  size_t bytes = 0;
  ForEachGraph(graph, [&](const Graph& inner) {
    for (const StoredTensor& tensor : inner.initializers) bytes += tensor.tensor.bytes();
    for (const Node& node : inner.nodes)
      if (const Attribute* value = node.op_type == "Constant" ? node.Find("value") : nullptr)
        if (auto* stored = std::get_if<std::shared_ptr<StoredTensor>>(&value->held); stored && *stored)
          bytes += (*stored)->tensor.bytes();
  });
  return bytes;
}

void FixDimensions(Graph& graph, const std::map<std::string, int64_t>& sizes) {
  std::set<std::string> unused;
  for (const auto& [name, size] : sizes) {
    Require(size >= 0, "dimension '", Printable(name), "' cannot have size ", size);
    unused.insert(name);
  }
  auto fix = [&](std::vector<ValueInfo>& infos, bool counts) {
    for (ValueInfo& info : infos) {
      if (!info.type.shape) continue;
      for (Dim& dim : *info.type.shape) {
        auto size = dim.named() ? sizes.find(dim.symbol) : sizes.end();
        if (size == sizes.end()) continue;
        if (counts) unused.erase(size->first);
        dim = Dim(size->second);
      }
    }
  };
  fix(graph.inputs, true);
  fix(graph.outputs, false);
  if (!unused.empty())
    Fail(ErrorCode::kInvalidArgument, "no input has a dimension named '", Printable(*unused.begin()), "'");
}

GraphFacts FactsOfAnyRun(const Graph& graph) {
  InferOptions options;
  options.defaults_may_change = true;
  options.on_error = [](const Node&, const Error&) {};  // who runs the model says it better
  return InferGraph(graph, {}, options);
}

// Every rewrite in turn until none finds anything to do, with a count of the nodes that each one saved.
class Rounds {
 public:
  explicit Rounds(Graph& graph) : graph_(graph) {}

  void Run() {
    constexpr int kMostRounds = 8;
    for (int round = 0; round < kMostRounds; ++round) {
      const size_t before = CountNodes(graph_);
      Do("constants folded", [&] { return FoldEverywhere(graph_); });
      Do("computed from shapes that are known", [&] { return FoldKnown(graph_, Facts(), true); });
      Do("branches that are always or never taken", [&] { return InlineBranches(graph_, Facts()); });
      Do("transposes that undo each other", [&] { return CancelTransposes(graph_, Facts()); });
      Do("nodes that pass their input on", [&] { return RemoveNoOps(graph_, Facts()); });
      Do("padding taken into convolutions", [&] { return FoldPad(graph_); });
      Do("factors and sums taken into convolutions", [&] { return FoldScaling(graph_); });
      Do("batch norms folded into weights", [&] { return FoldBatchNorm(graph_, true); });
      Do("nodes whose results nobody reads", [&] { return DropUnused(graph_), true; });
      if (CountNodes(graph_) == before) break;
    }
  }

  std::vector<std::string> Report() const {
    std::vector<std::string> lines;
    for (const auto& [what, saved] : saved_)
      if (saved > 0) lines.push_back(Cat(what, ": ", saved, saved == 1 ? " node" : " nodes"));
    return lines;
  }

 private:
  static bool FoldEverywhere(Graph& graph) {
    bool changed = FoldConstants(graph, true);
    changed |= ShareCommonSubexpressions(graph);
    for (Node& node : graph.nodes)
      for (Attribute& attribute : node.attributes)
        if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body)
          changed |= FoldEverywhere(**body);
    return changed;
  }

  GraphFacts Facts() const { return FactsOfAnyRun(graph_); }

  template <class Rewrite>
  void Do(const char* what, const Rewrite& rewrite) {
    const size_t before = CountNodes(graph_);
    rewrite();
    const size_t after = CountNodes(graph_);
    auto known = std::find_if(saved_.begin(), saved_.end(), [&](const auto& one) { return one.first == what; });
    if (known == saved_.end()) known = saved_.insert(saved_.end(), {what, 0});
    known->second += static_cast<int64_t>(before) - static_cast<int64_t>(after);
  }

  Graph& graph_;
  std::vector<std::pair<std::string, int64_t>> saved_;
};

// Shapes for whoever looks at the model next.
void DescribeValues(Graph& graph) {
  const GraphFacts facts = FactsOfAnyRun(graph);
  std::set<std::string> described;
  for (const ValueInfo& output : graph.outputs) described.insert(output.name);
  graph.value_infos.clear();
  for (const Node& node : graph.nodes)
    for (const std::string& name : node.outputs) {
      const ValueFacts* known = name.empty() ? nullptr : facts.Find(name);
      if (!known || !known->type.is_tensor() || !known->type.shape || known->type.dtype == DType::kUndefined) continue;
      if (!described.insert(name).second) continue;
      ValueInfo info;
      info.name = name;
      info.type = known->type;
      graph.value_infos.push_back(std::move(info));
    }
}

}  // namespace

Model WithDimensions(const Model& model, const std::map<std::string, int64_t>& sizes) {
  Model fixed = CopyDeep(model);
  FixDimensions(fixed.graph, sizes);
  return fixed;
}

OptimizedModel OptimizeModel(const Model& model, const OptimizeOptions& options) {
  OptimizedModel optimized;
  optimized.nodes_before = CountNodes(model.graph);
  optimized.weight_bytes_before = WeightBytes(model.graph);
  const int64_t opset = model.OpsetOf("");
  Model& made = optimized.model;
  made = CopyDeep(model);
  made.graph = PrepareGraph(model);
  made.functions.clear();
  for (OpsetImport& import : made.opsets)
    if (CanonicalDomain(import.domain).empty()) import.version = NewestOpset("");
  FixDimensions(made.graph, options.dimensions);
  Rounds rounds(made.graph);
  rounds.Run();
  if (opset > 0 && opset < NewestOpset("")) made = ConvertOpset(made, opset);
  DescribeValues(made.graph);
  made.ir_version = std::max(made.ir_version, model.ir_version);
  optimized.nodes_after = CountNodes(made.graph);
  optimized.weight_bytes_after = WeightBytes(made.graph);
  optimized.done = rounds.Report();
  return optimized;
}

}  // namespace ferry

#include "engine/prepare.h"

#include <algorithm>
#include <thread>
#include <unordered_set>

#include "base/error.h"
#include "graph/standard.h"
#include "onnx/aligned.h"
#include "onnx/arity.h"
#include "onnx/upgrade/upgrade.h"
#include "ops/operator.h"
#include "ops/support/dense.h"
#include "ops/traits.h"
#include "passes/expand_composed.h"
#include "passes/gradient.h"
#include "passes/inline_functions.h"

namespace ferry {
namespace {

StoredTensor Densify(const StoredSparseTensor& sparse) {
  try {
    return MakeStored(sparse.values.name, DenseTensor(sparse));
  } catch (const Error& error) {
    Fail(ErrorCode::kInvalidModel, "sparse initializer '", Printable(sparse.values.name), "': ", error.message());
  }
}

// Constant nodes that hold a tensor are initializers by another name.
void ConstantsToInitializers(Graph& graph) {
  std::erase_if(graph.nodes, [&](Node& node) {
    if (!IsStandard(node, "Constant") || node.outputs.size() != 1) return false;
    const Attribute* value = node.Find("value");
    auto* stored = value ? std::get_if<std::shared_ptr<StoredTensor>>(&value->held) : nullptr;
    if (!stored || !*stored) return false;
    StoredTensor initializer = **stored;
    initializer.name = node.outputs[0];
    graph.initializers.push_back(std::move(initializer));
    return true;
  });
}

// Operators of the internal domain are written by passes for kernels that trust them.
void RefuseInternal(const Graph& graph) {
  if (InternalOperators::Allowed()) return;
  ForEachGraph(graph, [](const Graph& one) {
    for (const Node& node : one.nodes)
      if (node.domain == kInternalDomain)
        Fail(ErrorCode::kInvalidModel, Describe(node), ": the domain '", kInternalDomain,
             "' is for operators that Ferry makes while it prepares a model; a model can't bring them");
  });
}

// Passes follow a value to the node that makes it; with two of them they could go in circles.
void RequireOneMaker(const Graph& graph) {
  std::unordered_set<std::string_view> made;
  for (const ValueInfo& input : graph.inputs) made.insert(input.name);
  for (const StoredTensor& initializer : graph.initializers) made.insert(initializer.name);
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty() && !made.insert(output).second)
        Fail(ErrorCode::kInvalidModel, Describe(node), ": gives '", Printable(output),
             "', which exists already; rename one of the two");
}

// Tensors that will be read are added to `read`.
void PrepareOne(Graph& graph, std::vector<Tensor*>& read) {
  RequireOneMaker(graph);
  for (const Node& node : graph.nodes) RequireArity(node);
  ConstantsToInitializers(graph);
  for (const StoredSparseTensor& sparse : graph.sparse_initializers) graph.initializers.push_back(Densify(sparse));
  graph.sparse_initializers.clear();
  for (StoredTensor& initializer : graph.initializers) {
    initializer.Get();
    read.push_back(&initializer.tensor);
  }
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes)
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.held); body && *body)
        PrepareOne(**body, read);
      else if (auto* stored = std::get_if<std::shared_ptr<StoredTensor>>(&attribute.held); stored && *stored) {
        auto aligned = std::make_shared<StoredTensor>(**stored);
        aligned->Get();
        read.push_back(&aligned->tensor);
        *stored = std::move(aligned);
      }
}

// Leaves out large weights that nobody needs to read where they lie.
void LeaveAsTheyLie(Graph& graph, std::vector<Tensor*>& read) {
  std::unordered_set<std::string> in_place;
  ForEachGraph(graph, [&](const Graph& inner) {
    for (const ValueInfo& output : inner.outputs) in_place.insert(output.name);
    for (const Node& node : inner.nodes)
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (&inner != &graph || !Includes(TraitsOf(node).reads_anywhere, i)) in_place.insert(node.inputs[i]);
  });
  std::unordered_set<const Tensor*> left;
  for (const StoredTensor& initializer : graph.initializers)
    if ((initializer.tensor.dtype() == DType::kFloat || initializer.tensor.dtype() == DType::kFloat16) &&
        initializer.tensor.bytes() > kSmallTensorBytes && !in_place.count(initializer.name))
      left.insert(&initializer.tensor);
  std::erase_if(read, [&](const Tensor* tensor) { return left.count(tensor) > 0; });
}

// More of them wait for memory.
int ThreadsFor(int asked) {
  constexpr int kMostThreads = 8;
  return std::clamp(asked > 0 ? asked : static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads);
}

}  // namespace

constinit thread_local int InternalOperators::depth_ = 0;

Graph PrepareGraph(const Model& model, int threads, Weights weights) {
  if (!model.has_graph) Fail(ErrorCode::kInvalidModel, "the model has no graph");
  Model copy = CopyDeep(model);
  UpgradeToNewest(copy);
  copy.graph.value_infos.clear();  // inference finds more
  InlineFunctions(copy);
  RefuseInternal(copy.graph);
  ExpandGradients(copy);
  ExpandComposed(copy);
  std::vector<Tensor*> read;
  PrepareOne(copy.graph, read);
  if (weights == Weights::kAsTheyLie) LeaveAsTheyLie(copy.graph, read);
  AlignForUse(std::move(read), ThreadsFor(threads));
  return std::move(copy.graph);
}

}  // namespace ferry

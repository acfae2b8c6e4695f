#include "doctor/sizes.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "doctor/lint.h"
#include "ops/infer_graph.h"

namespace ferry {
namespace {

constexpr size_t kMostSizes = 6;

Tensor ConstantOf(const Graph& graph, const std::string& name) {
  if (const StoredTensor* stored = graph.FindInitializer(name)) return stored->tensor;
  for (const Node& node : graph.nodes)
    if (node.op_type == "Constant" && node.HasOutput(0) && node.outputs[0] == name && node.Has("value"))
      return node.TensorAttribute("value");
  return {};
}

// Every name that a run may give a size, without repetition.
std::set<std::string> NamedDimensions(const Graph& graph) {
  std::set<std::string> names;
  for (const ValueInfo& input : graph.inputs)
    if (!graph.FindInitializer(input.name))
      for (const Dim& dim : input.type.shape.value_or(SymbolicShape{}))
        if (dim.named()) names.insert(dim.symbol);
  return names;
}

std::set<std::string> BatchNames(const Graph& graph) {
  std::set<std::string> names;
  for (const ValueInfo& input : graph.inputs)
    if (input.type.shape && !input.type.shape->empty() && input.type.shape->front().named())
      names.insert(input.type.shape->front().symbol);
  return names;
}

// Why the graph cannot have these sizes; 1 for names that are not among them. Empty when it can.
std::string Refusal(const Graph& graph, const SizesByName& sizes) {
  FactsByName facts;
  for (const ValueInfo& input : graph.inputs) {
    if (graph.FindInitializer(input.name) || !input.type.is_tensor() || !input.type.shape) continue;
    Type type = input.type;
    for (Dim& dim : *type.shape) {
      if (dim.known()) continue;
      auto given = sizes.find(dim.symbol);
      dim = Dim(given == sizes.end() ? 1 : given->second);
    }
    facts[input.name].type = std::move(type);
  }
  try {
    InferGraph(graph, facts, InferOptions());
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

SizesByName AllAt(const std::set<std::string>& names, int64_t size) {
  SizesByName sizes;
  for (const std::string& name : names) sizes[name] = size;
  return sizes;
}

}  // namespace

std::vector<int64_t> SuspiciousSizes(const Graph& graph) {
  std::vector<int64_t> first, further;
  auto add = [](std::vector<int64_t>& sizes, int64_t size) {
    if (size > 0 && std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  };
  auto add_list = [&](const Tensor& sizes) {
    if (!sizes.defined() || sizes.dtype() != DType::kInt64 || sizes.size() == 0 || sizes.size() > 16) return;
    std::vector<int64_t> list = ToInt64Vector(sizes.IsAligned(8) ? sizes : sizes.Clone());
    add(first, list[0]);
    for (size_t i = 1; i < list.size(); ++i) add(further, list[i]);
  };
  for (const Node& node : graph.nodes) {
    if (IsOneOf(node.op_type, {"Reshape", "Expand"}) && node.HasInput(1)) add_list(ConstantOf(graph, node.inputs[1]));
    if (node.op_type == "Resize" && node.inputs.size() > 1) add_list(ConstantOf(graph, node.inputs.back()));
    if (node.op_type == "Expand" && node.HasInput(0))
      if (Tensor data = ConstantOf(graph, node.inputs[0]); data.defined())
        for (int64_t size : data.shape()) add(first, size > 1 ? size : 0);
    if (IsOneOf(node.op_type, {"LSTM", "GRU", "RNN"}) && node.HasInput(5))
      if (Tensor state = ConstantOf(graph, node.inputs[5]); state.rank() == 3)
        add(first, state.dim(node.Int("layout", 0) != 0 ? 0 : 1));
  }
  for (int64_t size : further) add(first, size);
  if (first.size() > kMostSizes) first.resize(kMostSizes);
  return first;
}

RunnableSizes FindRunnableSizes(const Graph& graph) {
  RunnableSizes found;
  std::set<std::string> names = NamedDimensions(graph), batches = BatchNames(graph);
  if (names.empty()) return found;
  found.why = Refusal(graph, {});
  if (found.why.empty()) return found;
  std::vector<int64_t> candidates = SuspiciousSizes(graph);
  candidates.insert(candidates.end(), {2, 3, 4, 5, 8, 16, 32, 64, 128, 224, 256});
  for (int64_t size : candidates)
    for (const std::set<std::string>& varied : {batches, names}) {
      SizesByName sizes = AllAt(varied, size);
      if (varied.empty() || size == 1 || !Refusal(graph, sizes).empty()) continue;
      found.sizes = std::move(sizes);
      found.is_only =
          !Refusal(graph, AllAt(varied, size + 1)).empty() && !Refusal(graph, AllAt(varied, 2 * size)).empty();
      return found;
    }
  return found;
}

}  // namespace ferry

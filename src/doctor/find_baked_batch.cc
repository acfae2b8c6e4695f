#include <algorithm>
#include <set>

#include "base/error.h"
#include "doctor/batch_plan.h"
#include "doctor/lint.h"

namespace ferry {
namespace {

const Dim* FirstDim(const Type& type) {
  return type.is_tensor() && type.has_rank() && !type.shape->empty() ? &type.shape->front() : nullptr;
}

// Sizes that stand first in the constants of a graph whose inputs name their batch.
std::set<int64_t> SuspiciousSizes(const Graph& graph) {
  std::set<int64_t> sizes;
  for (const Node& node : graph.nodes) {
    if (!IsOneOf(node.op_type, {"Reshape", "Expand", "Resize"}) || node.inputs.size() < 2) continue;
    const StoredTensor* stored =
        graph.FindInitializer(node.inputs[node.op_type == "Resize" ? node.inputs.size() - 1 : 1]);
    Tensor found = stored ? stored->tensor : Tensor();
    for (const Node& other : graph.nodes)
      if (!stored && other.op_type == "Constant" && other.HasOutput(0) && other.outputs[0] == node.inputs[1] &&
          other.Has("value"))
        found = other.TensorAttribute("value");
    if (!found.defined() || found.dtype() != DType::kInt64 || found.size() == 0) continue;
    int64_t first = ToInt64Vector(found.IsAligned(8) ? found : found.Clone())[0];
    if (first > 0) sizes.insert(first);
  }
  return sizes;
}

}  // namespace

std::vector<std::string> BatchInputs(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueInfo& input : graph.inputs)
    if (!graph.FindInitializer(input.name) && FirstDim(input.type)) names.push_back(input.name);
  return names;
}

std::optional<BatchPlan> FindBakedBatch(const Graph& graph) {
  std::vector<std::string> inputs = BatchInputs(graph);
  if (inputs.empty()) return std::nullopt;
  const Dim& first = *FirstDim(graph.FindInput(inputs[0])->type);
  for (const std::string& name : inputs)
    if (!SameDim(first, *FirstDim(graph.FindInput(name)->type))) return std::nullopt;
  if (first.known()) {
    bool answers_per_sample = std::any_of(graph.outputs.begin(), graph.outputs.end(), [&](const ValueInfo& output) {
      if (!output.type.is_tensor() || !output.type.has_rank()) return true;
      const Dim* dim = FirstDim(output.type);
      return dim && (SameDim(*dim, first) || !dim->known());
    });
    if (*first.value < 1 || !answers_per_sample) return std::nullopt;
    return PlanFreeBatch(graph, inputs, *first.value);
  }
  constexpr size_t kMostTries = 4;
  size_t tries = 0;
  for (int64_t size : SuspiciousSizes(graph)) {
    if (++tries > kMostTries) break;
    try {
      BatchPlan plan = PlanFreeBatch(graph, inputs, size);
      if (!plan.edits.empty()) return plan;
    } catch (const Error&) {  // the network does not take this size, so it is not baked in
    }
  }
  return std::nullopt;
}

}  // namespace ferry

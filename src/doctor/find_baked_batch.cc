#include <algorithm>

#include "base/error.h"
#include "doctor/batch_plan.h"
#include "doctor/lint.h"
#include "doctor/sizes.h"

namespace ferry {
namespace {

const Dim* FirstDim(const Type& type) {
  return type.is_tensor() && type.has_rank() && !type.shape->empty() ? &type.shape->front() : nullptr;
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

#include "engine/shared_caches.h"

#include <algorithm>

#include "ops/support/cache_outputs.h"

namespace ferry {
namespace {

size_t ReadersOf(const Plan& plan, int slot) {
  size_t readers = 0;
  for (const StepPlan& step : plan.steps) {
    readers += static_cast<size_t>(std::count(step.inputs.begin(), step.inputs.end(), slot));
    for (const BodyPlan& body : step.bodies)
      readers += static_cast<size_t>(std::count(body.captured_slots.begin(), body.captured_slots.end(), slot));
  }
  return readers + static_cast<size_t>(std::count(plan.results.begin(), plan.results.end(), slot));
}

// The input of the program that `step` makes its output number `output` of, or -1.
int InputBehind(const Plan& plan, const StepPlan& step, size_t output) {
  const int input = CacheInputOf(*step.node, output);
  if (input < 0 || static_cast<size_t>(input) >= step.inputs.size()) return -1;
  const int slot = step.inputs[static_cast<size_t>(input)];
  const auto given = std::find(plan.inputs.begin(), plan.inputs.end(), slot);
  if (slot < 0 || given == plan.inputs.end() || ReadersOf(plan, slot) != 1) return -1;
  return static_cast<int>(given - plan.inputs.begin());
}

bool Meet(const Tensor& a, const Tensor& b) {
  return &a.space() == &b.space() && a.address() < b.address() + b.bytes() && b.address() < a.address() + a.bytes();
}

}  // namespace

std::vector<int> SharedCacheInputs(const Plan& plan) {
  std::vector<int> inputs(plan.results.size(), -1);
  for (const StepPlan& step : plan.steps) {
    if (!step.node || step.is_copy || step.chain) continue;
    for (size_t output = 0; output < step.outputs.size(); ++output) {
      if (CacheInputOf(*step.node, output) < 0) continue;
      const auto result = std::find(plan.results.begin(), plan.results.end(), step.outputs[output]);
      if (step.outputs[output] >= 0 && result != plan.results.end())
        inputs[static_cast<size_t>(result - plan.results.begin())] = InputBehind(plan, step, output);
    }
  }
  return inputs;
}

bool IsSharedCache(const Tensor& place, std::span<const Value> inputs, int cache) {
  if (cache < 0 || static_cast<size_t>(cache) >= inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) continue;
    const Tensor& tensor = inputs[i].tensor();
    const bool is_same = tensor.address() == place.address() && tensor.dtype() == place.dtype() &&
                         tensor.shape() == place.shape() && &tensor.space() == &place.space();
    if (static_cast<int>(i) == cache ? !is_same : Meet(tensor, place)) return false;
  }
  return true;
}

}  // namespace ferry

#include "engine/packed_weights.h"

#include <algorithm>
#include <vector>

namespace ferry {
namespace {

struct Constant {
  const std::byte *tensor, *begin, *end;  // what it takes when it is packed where it lies
  bool only_packed;
};

// One entry for each reader.
void Collect(const Plan& plan, std::vector<Constant>& constants) {
  auto add = [&](int slot, bool only_packed) {
    if (slot < 0 || plan.slots[static_cast<size_t>(slot)].place != Slot::Place::kConstant) return;
    const Tensor& tensor = plan.slots[static_cast<size_t>(slot)].constant;
    if (!tensor.defined() || tensor.dtype() == DType::kString || !tensor.on_host() || tensor.bytes() == 0) return;
    constants.push_back({tensor.raw(), WeightCache::PlaceOf(tensor), tensor.raw() + tensor.bytes(), only_packed});
  };
  for (const StepPlan& step : plan.steps) {
    for (size_t i = 0; i < step.inputs.size(); ++i)
      add(step.inputs[i], !step.chain && i < 32 && (step.kernel.packs >> i & 1) != 0);
    for (const BodyPlan& body : step.bodies) {
      for (int slot : body.captured_slots) add(slot, false);
      Collect(*body.plan, constants);
    }
    if (step.chain) Collect(*step.chain, constants);
  }
  for (int slot : plan.results) add(slot, false);
}

}  // namespace

WeightCache::Addresses WeightsReadPacked(const Plan& plan) {
  std::vector<Constant> constants;
  Collect(plan, constants);
  std::sort(constants.begin(), constants.end(), [](const Constant& a, const Constant& b) { return a.begin < b.begin; });
  WeightCache::Addresses packed;
  for (size_t i = 0; i < constants.size();) {
    const Constant& first = constants[i];
    const std::byte* end = first.end;
    bool alone = true;
    for (; i < constants.size() && constants[i].begin < end; ++i) {
      const Constant& other = constants[i];
      alone = alone && other.only_packed && other.tensor == first.tensor && other.end == first.end;
      end = std::max(end, other.end);
    }
    if (alone) packed.insert(first.tensor);
  }
  return packed;
}

}  // namespace ferry

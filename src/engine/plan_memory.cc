#include "engine/plan_memory.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "tensor/tensor.h"

namespace ferry {

static size_t Padded(size_t bytes) { return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment; }

// Largest first, each into the tightest gap among the placed values it shares time with: close to optimal for the
// long chains that networks are, and simple.
MemoryPlan PlanMemory(const std::vector<Lifetime>& lifetimes) {
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<size_t> placed;  // sorted by offset
  for (size_t index : order) {
    const Lifetime& mine = lifetimes[index];
    size_t bytes = Padded(mine.bytes), best = 0, best_gap = SIZE_MAX, end_so_far = 0;
    for (size_t other : placed) {
      const Lifetime& theirs = lifetimes[other];
      if (theirs.last < mine.first || mine.last < theirs.first) continue;
      size_t begin = plan.offsets[other];
      if (begin > end_so_far && begin - end_so_far >= bytes && begin - end_so_far < best_gap) {
        best = end_so_far;
        best_gap = begin - end_so_far;
      }
      end_so_far = std::max(end_so_far, begin + Padded(theirs.bytes));
    }
    plan.offsets[index] = best_gap != SIZE_MAX ? best : end_so_far;
    size_t end;
    if (__builtin_add_overflow(plan.offsets[index], bytes, &end))
      Fail(ErrorCode::kLimit, "the values of this model need more memory than can be addressed");
    plan.arena_bytes = std::max(plan.arena_bytes, end);
    auto by_offset = [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index, by_offset), index);
  }
  return plan;
}

}  // namespace ferry

#include "engine/plan_memory.h"

#include <algorithm>
#include <climits>
#include <map>
#include <utility>

#include "base/check_run.h"
#include "base/error.h"
#include "tensor/tensor.h"

namespace ferry {

static size_t Padded(size_t bytes) { return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment; }

namespace {

// Finds values that share time with another without a look at all the others.
class Timeline {
 public:
  explicit Timeline(const std::vector<Lifetime>& lifetimes) {
    int end = 0;
    for (const Lifetime& one : lifetimes)
      for (int time : {one.first, one.last})
        if (time < INT_MAX) end = std::max(end, time + 1);
    size_ = static_cast<size_t>(end) + 1;  // what lasts for ever ends in the last place
    alive_.resize(2 * size_);
  }

  void Add(size_t index, const Lifetime& lifetime) {
    auto [first, last] = PlacesOf(lifetime);
    starts_.emplace(first, index);
    for (size_t a = first + size_, b = last + size_ + 1; a < b; a /= 2, b /= 2) {
      if (a % 2) alive_[a++].push_back(index);
      if (b % 2) alive_[--b].push_back(index);
    }
  }

  template <class Visit>
  void ForEachBeside(const Lifetime& lifetime, const Visit& visit) const {
    auto [first, last] = PlacesOf(lifetime);
    for (size_t place = first + size_; place > 0; place /= 2)
      for (size_t index : alive_[place]) visit(index);
    for (auto it = starts_.upper_bound(first); it != starts_.end() && it->first <= last; ++it) visit(it->second);
  }

 private:
  std::pair<size_t, size_t> PlacesOf(const Lifetime& lifetime) const {
    auto place = [&](int time) { return std::min(static_cast<size_t>(std::max(time, 0)), size_ - 1); };
    return std::minmax(place(lifetime.first), place(lifetime.last));
  }

  size_t size_;
  std::vector<std::vector<size_t>> alive_;  // a segment tree: values that live through the times below a node
  std::multimap<size_t, size_t> starts_;
};

}  // namespace

// Largest first, each into the tightest gap among the placed values it shares time with: close to optimal for the
// long chains that networks are, and simple.
MemoryPlan PlanMemory(const std::vector<Lifetime>& lifetimes) {
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < lifetimes.size(); ++i) order.emplace_back(SIZE_MAX - lifetimes[i].bytes, i);
  std::sort(order.begin(), order.end());
  Timeline placed(lifetimes);
  std::vector<std::pair<size_t, size_t>> beside;  // where they begin and end
  for (const auto& [rank, index] : order) {
    const Lifetime& mine = lifetimes[index];
    size_t bytes = Padded(mine.bytes), best = 0, best_gap = SIZE_MAX, end_so_far = 0;
    CheckRun();
    beside.clear();
    placed.ForEachBeside(mine, [&](size_t other) {
      beside.emplace_back(plan.offsets[other], plan.offsets[other] + Padded(lifetimes[other].bytes));
    });
    std::sort(beside.begin(), beside.end());
    for (auto [begin, after] : beside) {
      if (begin > end_so_far && begin - end_so_far >= bytes && begin - end_so_far < best_gap) {
        best = end_so_far;
        best_gap = begin - end_so_far;
      }
      end_so_far = std::max(end_so_far, after);
    }
    plan.offsets[index] = best_gap != SIZE_MAX ? best : end_so_far;
    size_t end;
    if (__builtin_add_overflow(plan.offsets[index], bytes, &end))
      Fail(ErrorCode::kLimit, "the values of this model need more memory than can be addressed");
    plan.arena_bytes = std::max(plan.arena_bytes, end);
    placed.Add(index, mine);
  }
  return plan;
}

}  // namespace ferry

// Places values of known size and lifetime in one arena so that values alive at the same time never overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ferry {

struct Lifetime {
  size_t bytes = 0;
  int first = 0;  // step that makes the value
  int last = 0;   // last step that reads it
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // one per lifetime
  size_t arena_bytes = 0;
};

MemoryPlan PlanMemory(const std::vector<Lifetime>& lifetimes);

}  // namespace ferry

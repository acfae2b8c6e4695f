// What an operator may limit, so that a model from somebody else takes no more than it should. See docs/limits.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ferry {

inline constexpr int64_t kMostIterations = 100'000'000;
inline constexpr size_t kMostExpandedNodes = 1'000'000;
inline constexpr uint64_t kMostInflatedBytes = uint64_t{4} << 30;

struct Limits {
  std::chrono::nanoseconds time{0};              // of opening a model, and of each run; 0: any
  size_t bytes = 0;                              // that a run holds at once: arenas, tensors and strings; 0: any
  int64_t iterations = kMostIterations;          // of all Loops and Scans of a run together
  size_t expanded_nodes = kMostExpandedNodes;    // that the functions of a model become
  uint64_t inflated_bytes = kMostInflatedBytes;  // that the compressed entries of one archive become
};

}  // namespace ferry

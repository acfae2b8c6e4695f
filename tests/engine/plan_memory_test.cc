#include "engine/plan_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ferry {
namespace {

bool Overlap(const Lifetime& a, size_t a_offset, const Lifetime& b, size_t b_offset) {
  bool in_time = a.first <= b.last && b.first <= a.last;
  bool in_space = a_offset < b_offset + b.bytes && b_offset < a_offset + a.bytes;
  return in_time && in_space;
}

TEST(PlanMemory, NeverLetsLivingValuesOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 40; ++i) {
      int first = static_cast<int>(random() % 50);
      lifetimes.push_back({random() % 3000, first, first + static_cast<int>(random() % 10)});
    }
    MemoryPlan plan = PlanMemory(lifetimes);
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      EXPECT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.arena_bytes);
      EXPECT_EQ(plan.offsets[i] % 64, 0u);
      for (size_t j = 0; j < i; ++j)
        EXPECT_FALSE(Overlap(lifetimes[i], plan.offsets[i], lifetimes[j], plan.offsets[j]))
            << round << ": " << i << ", " << j;
    }
  }
}

TEST(PlanMemory, AChainNeedsTwoBuffers) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 20; ++i) chain.push_back({1024, i, i + 1});
  EXPECT_EQ(PlanMemory(chain).arena_bytes, 2048u);
}

}  // namespace
}  // namespace ferry

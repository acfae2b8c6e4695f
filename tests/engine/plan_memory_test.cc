#include "engine/plan_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <random>

#include "engine/session.h"
#include "tests/support/graphs.h"

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

// Among them one that lasts for ever and one that nobody writes.
TEST(PlanMemory, ManyShortLivesArePlannedFast) {
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < 200000; ++i) lifetimes.push_back({static_cast<size_t>(i % 7 + 1) * 64, i, i + 1 + i % 3});
  lifetimes.push_back({64, 5, INT_MAX});
  lifetimes.push_back({64, INT_MAX, -1});
  const MemoryPlan plan = PlanMemory(lifetimes);
  EXPECT_LE(plan.arena_bytes, 64u * 64);
  for (size_t i = 0; i + 4 < 5000; ++i)
    for (size_t j = i + 1; j < i + 4; ++j)
      EXPECT_FALSE(Overlap(lifetimes[i], plan.offsets[i], lifetimes[j], plan.offsets[j])) << i << ", " << j;
}

// Memory shared along the whole chain.
TEST(PlanMemory, LongChainsArePlannedInTime) {
  constexpr int kNodes = 60000;
  std::vector<Node> nodes;
  std::string last = "x";
  for (int i = 0; i < kNodes; ++i) {
    std::string next = Cat("v", i);
    nodes.push_back(testing::MakeNode("Neg", {last}, {next}));
    last = next;
  }
  nodes.push_back(testing::MakeNode("Tanh", {last}, {"y"}));
  const Model model = testing::MakeModel({testing::MakeInfo("x", DType::kFloat, {4})}, nodes, {testing::MakeInfo("y")});
  SessionOptions options{.threads = 1, .optimize = false};
  options.limits.time = std::chrono::seconds(20);
  const auto session = Session::FromModel(CopyDeep(model), options);
  const Tensor y = session->Run(std::vector<NamedValue>{{"x", Tensor::Zeros(DType::kFloat, {4})}})[0].tensor();
  EXPECT_EQ(y.Data<float>()[0], 0.0f);
}

}  // namespace
}  // namespace ferry

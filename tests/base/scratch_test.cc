#include "base/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace ferry {
namespace {

enum class Use { kOne, kOther, kCount };

TEST(ThreadScratch, StaysWhereItIsUntilMoreIsAskedFor) {
  float* first = ThreadScratch<float>(Use::kOne, 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  std::fill_n(first, 1000, 3.0f);
  EXPECT_EQ(ThreadScratch<float>(Use::kOne, 10), first);
  EXPECT_EQ(ThreadScratch<float>(Use::kOne, 1000), first);
  EXPECT_EQ(first[999], 3.0f);
  float* grown = ThreadScratch<float>(Use::kOne, 1001);
  std::fill_n(grown, 1001, 4.0f);
  EXPECT_EQ(ThreadScratch<float>(Use::kOne, 2000), grown) << "it doubles, so that little more costs nothing";
}

TEST(ThreadScratch, UsesTypesAndThreadsHaveTheirOwn) {
  float* one = ThreadScratch<float>(Use::kOne, 64);
  float* other = ThreadScratch<float>(Use::kOther, 64);
  auto* of_bytes = reinterpret_cast<float*>(ThreadScratch<uint8_t>(Use::kOne, 64));
  float* of_a_thread = nullptr;
  std::thread([&] {
    of_a_thread = ThreadScratch<float>(Use::kOne, 64);
    EXPECT_NE(of_a_thread, one);
  }).join();
  EXPECT_NE(one, other);
  EXPECT_NE(one, of_bytes);
  EXPECT_NE(other, of_bytes);
}

}  // namespace
}  // namespace ferry

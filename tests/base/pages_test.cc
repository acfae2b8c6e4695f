#include "base/pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>

#include "base/error.h"

namespace ferry {
namespace {

struct Block {
  std::byte* begin;
  size_t bytes;
  std::byte mark;
};

bool HoldsItsMark(const Block& block) {
  return std::all_of(block.begin, block.begin + block.bytes, [&](std::byte value) { return value == block.mark; });
}

// Sizes on both sides of a large page and of what is mapped at once.
TEST(LargePages, KeepsBlocksApart) {
  LargePages pages;
  std::vector<Block> blocks;
  for (size_t bytes : {size_t{1}, size_t{100}, size_t{0}, size_t{3} << 20, size_t{70} << 20, size_t{64},
                       size_t{20} << 20, size_t{50} << 20, size_t{4095}}) {
    Block block{pages.Allocate(bytes), bytes, static_cast<std::byte>(blocks.size() + 1)};
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.begin) % 64, 0u);
    for (size_t at : {size_t{0}, bytes / 2, bytes - 1})
      if (at < bytes) EXPECT_EQ(block.begin[at], std::byte{0});
    std::memset(block.begin, static_cast<int>(block.mark), block.bytes);
    blocks.push_back(block);
  }
  for (const Block& block : blocks) EXPECT_TRUE(HoldsItsMark(block)) << "block of " << block.bytes << " bytes";
}

TEST(LargePages, ServesThreadsAtOnce) {
  LargePages pages;
  std::vector<std::vector<Block>> blocks(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < blocks.size(); ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 200; ++i) {
        Block block{pages.Allocate(i * 97 + 1), i * 97 + 1, static_cast<std::byte>(t + 1)};
        std::memset(block.begin, static_cast<int>(block.mark), block.bytes);
        blocks[t].push_back(block);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_one : blocks)
    for (const Block& block : of_one) EXPECT_TRUE(HoldsItsMark(block));
}

TEST(LargePages, RefusesMoreThanThereIs) {
  LargePages pages;
  EXPECT_THROW(pages.Allocate(SIZE_MAX), Error);
  EXPECT_THROW(pages.Allocate(SIZE_MAX / 2), Error);
  EXPECT_NE(pages.Allocate(8), nullptr);
}

}  // namespace
}  // namespace ferry

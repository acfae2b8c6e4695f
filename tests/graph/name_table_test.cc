#include "graph/name_table.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace ferry {
namespace {

TEST(NameTable, NumbersNamesInTheOrderTheyCome) {
  NameTable names;
  EXPECT_EQ(names.Add("b"), 0u);
  EXPECT_EQ(names.Add(""), 1u);
  EXPECT_EQ(names.Add("a"), 2u);
  EXPECT_EQ(names.Add("b"), 0u);
  EXPECT_EQ(names.size(), 3u);
  EXPECT_EQ(names.Find("a"), 2u);
  EXPECT_EQ(names.Find("ab"), NameTable::kNone);
  EXPECT_TRUE(names.Has(""));
  EXPECT_FALSE(names.Has("c"));
}

TEST(NameTable, FindsAllOfManyNames) {
  NameTable names(3);  // far fewer than come
  constexpr uint32_t kCount = 5000;
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(names.Add(Cat("layer.", i)), i);
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(names.Find(Cat("layer.", i)), i);
  EXPECT_FALSE(names.Has(Cat("layer.", kCount)));
}

}  // namespace
}  // namespace ferry

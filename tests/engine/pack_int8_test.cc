#include "engine/cpu/pack_int8.h"

#include <gtest/gtest.h>

#include <random>

namespace ferry {
namespace {

// Every weight at its place, zeros everywhere else, and the sums.
template <class At>
void ExpectPacked(const Int8Weights& packed, const At& at) {
  const int64_t size = PackedInt8Size(packed.depth, packed.columns);
  ASSERT_EQ(packed.panels.size(), packed.groups * size);
  std::vector<int8_t> expected(static_cast<size_t>(packed.groups * size));
  for (int64_t group = 0; group < packed.groups; ++group)
    for (int64_t n = 0; n < packed.columns; ++n) {
      int32_t sum = 0;
      for (int64_t k = 0; k < packed.depth; ++k) {
        int8_t weight = at(group, n, k);
        expected[static_cast<size_t>(group * size + PackedInt8Index(packed.depth, k, n))] = weight;
        sum += weight;
      }
      EXPECT_EQ(packed.sums[static_cast<size_t>(group * packed.columns + n)], sum);
    }
  auto span = packed.panels.Span<int8_t>();
  EXPECT_EQ(std::vector<int8_t>(span.begin(), span.end()), expected)
      << packed.groups << " × " << packed.depth << " × " << packed.columns;
}

std::vector<int8_t> RandomBytes(std::mt19937& random, int64_t count) {
  std::vector<int8_t> bytes(static_cast<size_t>(count));
  for (int8_t& byte : bytes) byte = static_cast<int8_t>(random());
  return bytes;
}

TEST(PackInt8, RowsAndLinesGoToTheirPlaces) {
  std::mt19937 random(5);
  auto size = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint32_t>(most)) + 1; };
  for (int i = 0; i < 100; ++i) {
    const int64_t depth = size(i < 50 ? 9 : 150), columns = size(i % 2 ? 5 : 70), groups = size(3);
    const std::vector<int8_t> bytes = RandomBytes(random, groups * depth * columns);
    const uint8_t flip = i % 3 == 0 ? kSignFlip : 0;
    auto at = [&](int64_t index) { return bytes[static_cast<size_t>(index)]; };
    ExpectPacked(PackInt8Rows(reinterpret_cast<const uint8_t*>(bytes.data()), depth, columns, flip),
                 [&](int64_t, int64_t n, int64_t k) {
                   return static_cast<int8_t>(static_cast<uint8_t>(at(k * columns + n)) ^ flip);
                 });
    ExpectPacked(PackInt8Lines(groups, depth, columns,
                               [&](int64_t group, int64_t n) { return bytes.data() + (group * columns + n) * depth; }),
                 [&](int64_t group, int64_t n, int64_t k) { return at((group * columns + n) * depth + k); });
  }
}

}  // namespace
}  // namespace ferry

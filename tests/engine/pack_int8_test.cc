#include "engine/cpu/pack_int8.h"

#include <gtest/gtest.h>

#include <random>

namespace ferry {
namespace {

// Every weight at its place, zeros everywhere else, and the sums.
template <class At>
void ExpectPacked(const Int8Weights& weights, const At& at) {
  const int64_t size = PackedInt8Size(weights.depth, weights.columns), sums = weights.groups * weights.columns;
  ASSERT_EQ(weights.packed->size(), weights.groups * size + 4 * sums);
  std::vector<int8_t> expected(static_cast<size_t>(weights.groups * size));
  for (int64_t group = 0; group < weights.groups; ++group)
    for (int64_t n = 0; n < weights.columns; ++n) {
      int32_t sum = 0;
      for (int64_t k = 0; k < weights.depth; ++k) {
        int8_t weight = at(group, n, k);
        expected[static_cast<size_t>(group * size + PackedInt8Index(weights.depth, k, n))] = weight;
        sum += weight;
      }
      EXPECT_EQ(SumsBehind(*weights.packed, sums)[group * weights.columns + n], sum);
    }
  const int8_t* panels = weights.GroupPanels(0);
  EXPECT_EQ(std::vector<int8_t>(panels, panels + weights.groups * size), expected)
      << weights.groups << " × " << weights.depth << " × " << weights.columns;
}

Tensor RandomBytes(std::mt19937& random, DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  for (size_t i = 0; i < tensor.bytes(); ++i) tensor.mutable_raw()[i] = static_cast<std::byte>(random());
  return tensor;
}

struct Trial {
  explicit Trial(uint32_t seed) : random(seed) {
    groups = Size(3), taps = seed % 4 == 0 ? Size(10) : 1, channels = Size(seed < 60 ? 9 : 150);
    columns = Size(seed % 2 ? 5 : 70);
    flip = seed % 3 == 0 ? kSignFlip : 0;
    matrix = RandomBytes(random, flip ? DType::kUInt8 : DType::kInt8, {channels, columns});
    lines = RandomBytes(random, DType::kInt8, {groups * columns, channels, taps});
  }
  int64_t Size(int64_t most) { return static_cast<int64_t>(random() % static_cast<uint32_t>(most)) + 1; }

  void Pack(WeightCache& cache) {
    from_matrix = PackInt8Rows(matrix, flip, cache);
    from_lines = PackInt8Lines(lines, groups, taps, cache);
  }
  void Check() const {
    ExpectPacked(from_matrix, [&](int64_t, int64_t n, int64_t k) {
      return static_cast<int8_t>(static_cast<uint8_t>(matrix.raw()[k * columns + n]) ^ flip);
    });
    ExpectPacked(from_lines, [&](int64_t group, int64_t n, int64_t k) {
      const int64_t tap = k / channels, c = k % channels;
      return lines.Data<int8_t>()[((group * columns + n) * channels + c) * taps + tap];
    });
  }

  std::mt19937 random;
  int64_t groups, taps, channels, columns;
  uint8_t flip;
  Tensor matrix, lines;
  Int8Weights from_matrix, from_lines;
};

TEST(PackInt8, RowsAndLinesGoToTheirPlaces) {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    WeightCache cache;
    Trial trial(seed);
    trial.Pack(cache);
    trial.Check();
  }
}

TEST(PackInt8, ByATeam) {
  WeightCache cache;
  ThreadPool pool(3);
  std::vector<Trial> trials;
  for (uint32_t seed = 0; seed < 120; ++seed) trials.emplace_back(seed);
  WeightCache::Team team(cache);
  for (Trial& trial : trials) trial.Pack(cache);
  bool sums_are_there = false;
  cache.WhenMade([&] { sums_are_there = trials.back().from_lines.packed->defined(); });
  EXPECT_FALSE(trials.back().from_lines.packed->defined());
  team.Finish(&pool);
  EXPECT_TRUE(sums_are_there);
  for (const Trial& trial : trials) trial.Check();
}

}  // namespace
}  // namespace ferry

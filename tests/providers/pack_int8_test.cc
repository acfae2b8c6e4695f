#include "providers/cpu/pack_int8.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

namespace ferry {
namespace {

// Every weight at its place, zeros everywhere else, and the sums.
template <class At>
void ExpectPacked(const Int8Weights& weights, const At& at) {
  const auto [groups, depth, columns] = weights.shape;
  const int64_t size = PackedInt8Size(depth, columns), count = groups * columns;
  const Tensor& packed = weights.packed.Get();
  ASSERT_EQ(packed.size(), groups * size + 4 * count);
  std::vector<int8_t> expected(static_cast<size_t>(groups * size));
  std::vector<int32_t> sums(static_cast<size_t>(count));
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t n = 0; n < columns; ++n)
      for (int64_t k = 0; k < depth; ++k) {
        int8_t weight = at(group, n, k);
        expected[static_cast<size_t>(group * size + PackedInt8Index(depth, k, n))] = weight;
        sums[static_cast<size_t>(group * columns + n)] += weight;
      }
  EXPECT_EQ(std::vector<int32_t>(SumsBehind(packed, count), SumsBehind(packed, count) + count), sums);
  const auto* panels = packed.Data<int8_t>();
  EXPECT_EQ(std::vector<int8_t>(panels, panels + groups * size), expected)
      << groups << " × " << depth << " × " << columns;
  if (groups > 1) return;
  // The same panel by panel.
  for (int64_t first = 0; first < columns; first += kInt8PanelWidth) {
    const int64_t some = std::min(kInt8PanelWidth, columns - first), one = PackedInt8Size(depth, kInt8PanelWidth);
    std::vector<int8_t> panel(static_cast<size_t>(one), 1);
    std::vector<int32_t> sums_of_panel(static_cast<size_t>(some));
    weights.pack(first, some, panel.data(), sums_of_panel.data());
    EXPECT_TRUE(std::equal(panel.begin(), panel.end(), expected.begin() + first / kInt8PanelWidth * one));
    EXPECT_TRUE(std::equal(sums_of_panel.begin(), sums_of_panel.end(), sums.begin() + first));
  }
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
    from_matrix.emplace(PackInt8Rows(matrix, flip, cache));
    from_lines.emplace(PackInt8Lines(lines, groups, taps, cache));
  }
  void Check() const {
    ExpectPacked(*from_matrix, [&](int64_t, int64_t n, int64_t k) {
      return static_cast<int8_t>(static_cast<uint8_t>(matrix.raw()[k * columns + n]) ^ flip);
    });
    ExpectPacked(*from_lines, [&](int64_t group, int64_t n, int64_t k) {
      const int64_t tap = k / channels, c = k % channels;
      return lines.Data<int8_t>()[((group * columns + n) * channels + c) * taps + tap];
    });
  }

  std::mt19937 random;
  int64_t groups, taps, channels, columns;
  uint8_t flip;
  Tensor matrix, lines;
  std::optional<Int8Weights> from_matrix, from_lines;
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
  WeightCache::PackingBatch team(cache);
  for (Trial& trial : trials) trial.Pack(cache);
  EXPECT_EQ(trials.back().from_lines->packed.Find(), nullptr);
  team.Finish(&pool);
  EXPECT_NE(trials.back().from_lines->packed.Find(), nullptr);
  for (const Trial& trial : trials) trial.Check();
}

}  // namespace
}  // namespace ferry

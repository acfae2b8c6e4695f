// Products with weights of 4 and 8 bits, on every instruction set against plain loops.
#include "kernels/nbits_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/isas.h"
#include "tests/support/random_numbers.h"

namespace ferry {
namespace {

using testing::RandomNumbers;

struct Case {
  NbitsMatrix matrix;
  std::vector<uint8_t> numbers;  // [columns][padded]
  std::vector<uint32_t> words;
  std::vector<float> scales, bias;
  std::vector<int8_t> zeros;

  explicit Case(RandomNumbers& random) {
    matrix.bits = random.Bool() ? 4 : 8;
    matrix.block = int64_t{16} << random.Int(0, 4);
    matrix.depth = random.Size(100, 700);
    matrix.columns = random.Size(20, 70);
    matrix.blocks = (matrix.depth + matrix.block - 1) / matrix.block;
    const auto most = (1 << matrix.bits) - 1;
    for (int64_t i = 0; i < matrix.columns * matrix.padded(); ++i)
      numbers.push_back(static_cast<uint8_t>(random.Int(0, most)));
    std::vector<uint8_t> rows(static_cast<size_t>(matrix.columns * matrix.padded() * matrix.bits / 8));
    for (size_t i = 0; i < numbers.size(); ++i)
      if (matrix.bits == 8)
        rows[i] = numbers[i];
      else
        rows[i / 2] = static_cast<uint8_t>(rows[i / 2] | numbers[i] << (i % 2 * 4));
    words.resize(static_cast<size_t>(matrix.panels() * matrix.panel_words()));
    PackNbitsRows(rows.data(), matrix.padded() * matrix.bits / 8, matrix, words.data());
    std::vector<uint32_t> again(words.size());
    // What lies beyond the depth is not looked at: rows that are multiplied with it are 0.
    NbitsMatrix whole = matrix;
    whole.depth = matrix.padded();
    PackNbits(
        whole, [&](int64_t n, int64_t k) { return Number(n, k); }, again.data());
    EXPECT_EQ(words, again);
    const size_t count = static_cast<size_t>(matrix.panels() * matrix.blocks * kNbitsPanel);
    scales.resize(count);
    PackNbitsBlocks(
        matrix, [&](int64_t, int64_t) { return static_cast<float>(random.Real()); }, scales.data());
    if (random.Bool()) {
      zeros.resize(count);
      PackNbitsBlocks(
          matrix, [&](int64_t, int64_t) { return static_cast<int8_t>(random.Int(-(most + 1) / 2, most / 2)); },
          zeros.data());
      matrix.zeros = zeros.data();
    }
    matrix.words = words.data();
    matrix.scales = scales.data();
    if (random.Bool()) bias = random.Vector(matrix.columns);
  }

  uint32_t Number(int64_t column, int64_t k) const {
    return numbers[static_cast<size_t>(column * matrix.padded() + k)];
  }
  size_t Block(int64_t column, int64_t k) const {
    const int64_t panel = column / kNbitsPanel;
    return static_cast<size_t>((panel * matrix.blocks + k / matrix.block) * kNbitsPanel + column % kNbitsPanel);
  }
  // Without its scale.
  double Centered(int64_t column, int64_t k) const {
    const double number = static_cast<double>(Number(column, k)) - (1 << (matrix.bits - 1));
    return number - (zeros.empty() ? 0 : zeros[Block(column, k)]);
  }
  double Weight(int64_t column, int64_t k) const {
    return Centered(column, k) * static_cast<double>(scales[Block(column, k)]);
  }
  double Bias(int64_t column) const {
    return bias.empty() ? 0 : static_cast<double>(bias[static_cast<size_t>(column)]);
  }
  NbitsPart Part() const { return {0, matrix.panels(), matrix.columns, bias.empty() ? nullptr : bias.data()}; }
};

TEST(NbitsGemm, OneRowAndWidenedPanels) {
  for (Isa isa : testing::RunnableIsas()) {
    RandomNumbers random(5);
    const NbitsKernels& kernels = NbitsKernelsOf(isa);
    for (int trial = 0; trial < 60; ++trial) {
      const Case c(random);
      const NbitsMatrix& m = c.matrix;
      std::vector<float> a = random.Vector(m.depth), sums, y(static_cast<size_t>(m.columns + 1), 7.0f);
      a.resize(static_cast<size_t>(m.padded()), 0.0f);
      for (int64_t at = 0; at < m.blocks; ++at) {
        float sum = 0;
        for (int64_t k = 0; k < m.block; ++k) sum += a[static_cast<size_t>(at * m.block + k)];
        sums.push_back(sum);
      }
      kernels.row(m, c.Part(), a.data(), sums.data(), y.data());
      EXPECT_EQ(y.back(), 7.0f);
      std::vector<float> panel(static_cast<size_t>(m.depth * kNbitsPanel + 1), 7.0f);
      for (int64_t n = 0; n < m.columns; ++n) {
        double sum = c.Bias(n), size = 1;
        for (int64_t k = 0; k < m.depth; ++k) {
          sum += static_cast<double>(a[static_cast<size_t>(k)]) * c.Weight(n, k);
          size += std::abs(static_cast<double>(a[static_cast<size_t>(k)]) * c.Weight(n, k));
        }
        ASSERT_NEAR(y[static_cast<size_t>(n)], sum, 1e-5 * size) << "column " << n << " of " << m.columns;
        if (n % kNbitsPanel == 0) {
          const int64_t cut = random.Int(0, static_cast<int>(m.blocks) - 1) * m.block;
          kernels.widen(m, n / kNbitsPanel, 0, cut, panel.data());
          kernels.widen(m, n / kNbitsPanel, cut, m.depth - cut, panel.data() + cut * kNbitsPanel);
        }
        ASSERT_EQ(panel.back(), 7.0f);
        for (int64_t k = 0; k < m.depth; ++k)
          ASSERT_EQ(panel[static_cast<size_t>(k * kNbitsPanel + n % kNbitsPanel)],
                    static_cast<float>(c.Centered(n, k)) * c.scales[c.Block(n, k)]);
      }
    }
  }
}

class RowsOfBytes : public ::testing::TestWithParam<const NbitsByteKernels* (*)()> {};
INSTANTIATE_TEST_SUITE_P(NbitsGemm, RowsOfBytes, ::testing::Values(BestNbitsByteKernels, Avx2NbitsByteKernels));

TEST_P(RowsOfBytes, LikeLoops) {
  const NbitsByteKernels* kernels = GetParam()();
  if (!kernels) GTEST_SKIP() << "no instructions for it";
  RandomNumbers random(6);
  for (int trial = 0; trial < 60; ++trial) {
    const Case c(random);
    const NbitsMatrix& m = c.matrix;
    if (m.bits == 8 && !kernels->takes_8_bits) continue;
    const int64_t count = random.Int(1, 15);
    const std::vector<float> a = random.Vector(count * m.depth);
    std::vector<int8_t> numbers(static_cast<size_t>(count * m.padded()));
    std::vector<float> scales(static_cast<size_t>(count * m.blocks));
    std::vector<int32_t> sums(scales.size());
    for (int64_t i = 0; i < count; ++i)
      kernels->quantize(m, a.data() + i * m.depth, numbers.data() + i * m.padded(), scales.data() + i * m.blocks,
                        sums.data() + i * m.blocks);
    std::vector<uint8_t> scratch(static_cast<size_t>(m.padded() * 32));
    std::vector<float> y(static_cast<size_t>(count * m.columns), 7.0f), one(static_cast<size_t>(m.columns));
    kernels->multiply(m, c.Part(), {count, numbers.data(), scales.data(), sums.data()}, y.data(), m.columns,
                      scratch.data());
    for (int64_t i = 0; i < count; ++i) {
      kernels->multiply(m, c.Part(),
                        {1, numbers.data() + i * m.padded(), scales.data() + i * m.blocks, sums.data() + i * m.blocks},
                        one.data(), m.columns, scratch.data());
      for (int64_t n = 0; n < m.columns; ++n) {
        double sum = c.Bias(n), size = 1;
        for (int64_t k = 0; k < m.depth; ++k) {
          const double scale = static_cast<double>(scales[static_cast<size_t>(i * m.blocks + k / m.block)]);
          const double x = static_cast<double>(a[static_cast<size_t>(i * m.depth + k)]);
          // Of eight depths of 4 bits the even ones come first.
          const int64_t place = m.bits == 8 ? k : k / 8 * 8 + k % 2 * 4 + k % 8 / 2;
          const double number = numbers[static_cast<size_t>(i * m.padded() + place)] * scale;
          ASSERT_LE(std::abs(number - x), 0.5001 * scale);
          sum += number * c.Weight(n, k);
          size += std::abs(x * c.Weight(n, k));
        }
        ASSERT_NEAR(y[static_cast<size_t>(i * m.columns + n)], sum, 1e-5 * size) << i << ", " << n;
        // Few rows and many go different ways to the same bits.
        ASSERT_EQ(y[static_cast<size_t>(i * m.columns + n)], one[static_cast<size_t>(n)]) << i << ", " << n;
      }
    }
  }
}

TEST_P(RowsOfBytes, WhatIsNoNumberStaysSo) {
  const NbitsByteKernels* kernels = GetParam()();
  if (!kernels) GTEST_SKIP() << "no instructions for it";
  RandomNumbers random(7);
  Case c(random);
  while (c.matrix.bits != 4) c = Case(random);
  const NbitsMatrix& m = c.matrix;
  std::vector<float> a = random.Vector(m.depth), scales(static_cast<size_t>(m.blocks));
  a[static_cast<size_t>(m.depth - 1)] = NAN;
  std::vector<int8_t> numbers(static_cast<size_t>(m.padded()));
  std::vector<int32_t> sums(scales.size());
  kernels->quantize(m, a.data(), numbers.data(), scales.data(), sums.data());
  std::vector<uint8_t> scratch(static_cast<size_t>(m.padded() * 32));
  std::vector<float> y(static_cast<size_t>(m.columns));
  kernels->multiply(m, c.Part(), {1, numbers.data(), scales.data(), sums.data()}, y.data(), m.columns, scratch.data());
  for (float value : y) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace ferry

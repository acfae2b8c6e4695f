// The vectorised rows against plain loops in double, at every length around the vector's and some long ones.
#include "kernels/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/isa.h"

namespace ferry {
namespace {

std::vector<float> RandomRow(std::mt19937& random, int64_t count, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(static_cast<size_t>(count));
  for (float& value : row) value = normal(random);
  return row;
}

int64_t RandomCount(std::mt19937& random) { return 1 + static_cast<int64_t>(random() % (random() % 4 ? 70 : 3000)); }

// Distance in representable numbers.
int64_t UlpsApart(float a, double b) {
  auto rank = [](float x) {
    int32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? int64_t{INT32_MIN} - bits : int64_t{bits};
  };
  return std::abs(rank(a) - rank(static_cast<float>(b)));
}

// Numbers of both signs and every size, the largest and subnormals too, and densely those that no function saturates
// at.
std::vector<float> NumbersOfEverySize() {
  std::vector<float> numbers;
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 5003)
    for (uint32_t sign : {0u, 0x80000000u}) {
      uint32_t both = bits | sign;
      numbers.emplace_back();
      std::memcpy(&numbers.back(), &both, sizeof both);
    }
  for (float value = -105; value < 105; value += 0.000317f) numbers.push_back(value);
  return numbers;
}

// Within two ULPs everywhere; less than `tiny` may come out as anything of that size.
template <class Function, class Exact>
void HoldToTwoUlps(const Function& function, const Exact& exact, double tiny, int64_t limit = 2) {
  const std::vector<float> x = NumbersOfEverySize();
  std::vector<float> y(x.size());
  function(x.data(), y.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    double expected = exact(static_cast<double>(x[i]));
    if (std::abs(expected - y[i]) <= tiny || (std::isnan(expected) && std::isnan(y[i]))) continue;
    ASSERT_LE(UlpsApart(y[i], expected), limit) << x[i] << " gives " << y[i] << " instead of " << expected;
  }
}

auto Activating(const Activation& activation) {
  return [activation](const float* x, float* y, int64_t count) { BestRowKernels().activate(activation, x, y, count); };
}

constexpr double kLeastNormal = 1.1754944e-38;

TEST(RowKernels, ExpErfAndLogAreWithinTwoUlpsEverywhere) {
  HoldToTwoUlps(
      BestRowKernels().exp, [](double x) { return std::exp(x); }, 0);
  HoldToTwoUlps(
      BestRowKernels().erf, [](double x) { return std::erf(x); }, 0);
  HoldToTwoUlps(
      [](const float* x, float* y, int64_t count) { BestElementwiseKernels().unary(UnaryKind::kLog, x, y, count); },
      [](double x) { return std::log(x); }, 0);
}

TEST(RowKernels, TanhSigmoidAndSiluAreWithinTwoUlpsEverywhere) {
  HoldToTwoUlps(
      Activating({ActivationKind::kTanh}), [](double x) { return std::tanh(x); }, 0);
  HoldToTwoUlps(
      Activating({ActivationKind::kSigmoid}), [](double x) { return 1 / (1 + std::exp(-x)); }, kLeastNormal);
  for (float alpha : {1.0f, 0.5f, 1.702f, -2.0f})
    HoldToTwoUlps(
        Activating({ActivationKind::kSilu, alpha}),
        [alpha](double x) { return x / (1 + std::exp(-static_cast<double>(alpha) * x)); }, 4e-37 / std::abs(alpha));
}

// Its negative tail too, where 1 + erf and 1 + tanh lose all digits. Three where products and sums are rounded each.
TEST(RowKernels, GeluIsWithinTwoUlpsEverywhere) {
  const Isa isa = BestIsa();
  const int64_t limit = isa == Isa::kBaseline || isa == Isa::kSse4 || isa == Isa::kWasm ? 3 : 2;
  HoldToTwoUlps(
      Activating({ActivationKind::kGelu}), [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); },
      kLeastNormal, limit);
  HoldToTwoUlps(
      Activating({ActivationKind::kGeluTanh}),
      [](double x) { return x / (1 + std::exp(-std::sqrt(8 / M_PI) * (x + 0.044715 * x * x * x))); }, 5e-38, limit);
}

TEST(RowKernels, ActivationsKeepEveryNan) {
  uint32_t bits[] = {0x7fc00000u, 0x7fc00001u, 0xffc001ffu, 0x7fffffffu};
  float nans[4], y[4];
  std::memcpy(nans, bits, sizeof(bits));
  for (ActivationKind kind : {ActivationKind::kSigmoid, ActivationKind::kSilu, ActivationKind::kGelu,
                              ActivationKind::kGeluTanh, ActivationKind::kTanh}) {
    BestRowKernels().activate({kind, 1.0f}, nans, y, 4);
    for (float value : y) EXPECT_TRUE(std::isnan(value)) << static_cast<int>(kind);
  }
  float scores[16] = {};
  for (float nan : nans) {
    scores[3] = nan;
    float out[16];
    BestRowKernels().softmax({scores, nullptr, out, 16});
    for (float value : out) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(RowKernels, SoftmaxLeavesTheDivisionToTheCaller) {
  std::vector<float> x{1, 2, 3, 4, 5, -100, 0, 2, 1}, whole(9), y(9);
  EXPECT_EQ(BestRowKernels().softmax({x.data(), nullptr, whole.data(), 9}), 1.0f);
  float factor = BestRowKernels().softmax({x.data(), nullptr, y.data(), 9, 1, false, false});
  for (size_t i = 0; i < x.size(); ++i) EXPECT_FLOAT_EQ(y[i] * factor, whole[i]);
}

TEST(RowKernels, ExpOfSpecialNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float x[] = {kInfinity, -kInfinity, NAN, 0.0f, 200.0f, -200.0f, 88.8f}, y[7];
  BestRowKernels().exp(x, y, 7);
  EXPECT_EQ(y[0], kInfinity);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 1.0f);
  EXPECT_EQ(y[4], kInfinity);
  EXPECT_EQ(y[5], 0.0f);
  EXPECT_EQ(y[6], kInfinity);
}

TEST(RowKernels, NormalizesAsPlainLoopsDo) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    int64_t count = RandomCount(random);
    std::vector<float> x = RandomRow(random, count, 2), scale = RandomRow(random, count, 1),
                       bias = RandomRow(random, count, 1);
    for (float& value : x) value += 3;
    bool centered = random() % 2, biased = random() % 2;
    double mean = 0, squares = 0;
    if (centered)
      for (float value : x) mean += value / static_cast<double>(count);
    for (float value : x) squares += (value - mean) * (value - mean) / static_cast<double>(count);
    std::vector<float> y = x;
    BestRowKernels().normalize(
        {y.data(), scale.data(), biased ? bias.data() : nullptr, y.data(), count, 1e-5f, centered});
    for (size_t i = 0; i < x.size(); ++i) {
      double expected = (x[i] - mean) / std::sqrt(squares + 1e-5) * scale[i] + (biased ? bias[i] : 0);
      ASSERT_NEAR(y[i], expected, 2e-5 * (1 + std::abs(expected))) << count;
    }
  }
}

TEST(RowKernels, SoftmaxWithScaleAndMask) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    int64_t count = RandomCount(random);
    std::vector<float> x = RandomRow(random, count, 5), mask = RandomRow(random, count, 1), y(x.size());
    for (float& value : mask)
      if (random() % 3 == 0) value = -std::numeric_limits<float>::infinity();
    mask[random() % mask.size()] = 0;
    bool masked = random() % 2;
    BestRowKernels().softmax({x.data(), masked ? mask.data() : nullptr, y.data(), count, 0.5f});
    double largest = -INFINITY, sum = 0;
    auto score = [&](size_t i) { return 0.5 * x[i] + (masked ? mask[i] : 0.0f); };
    for (size_t i = 0; i < x.size(); ++i) largest = std::max(largest, score(i));
    for (size_t i = 0; i < x.size(); ++i) sum += std::exp(score(i) - largest);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], std::exp(score(i) - largest) / sum, 1e-6) << count;
  }
}

TEST(RowKernels, SoftmaxWithoutAnAnswer) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (float odd : {-kInfinity, kInfinity, NAN}) {
    for (int64_t count : {1, 3, 8, 17, 100}) {
      std::vector<float> x(static_cast<size_t>(count), odd == -kInfinity ? odd : 1.0f), y(x.size());
      x.back() = odd;
      BestRowKernels().softmax({x.data(), nullptr, y.data(), count});
      for (float value : y) EXPECT_TRUE(std::isnan(value));
      BestRowKernels().softmax({x.data(), nullptr, y.data(), count, 1, true});
      for (float value : y) EXPECT_EQ(value, 0.0f);
    }
  }
}

TEST(RowKernels, CombineAndDot) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    int64_t depth = static_cast<int64_t>(random() % 30), count = 1 + static_cast<int64_t>(random() % 50);
    std::vector<float> weights = RandomRow(random, depth, 1), rows = RandomRow(random, (depth + 1) * count, 1);
    std::vector<float> y(static_cast<size_t>(count), NAN);
    BestRowKernels().combine(weights.data(), depth, rows.data(), count, y.data(), count);
    for (int64_t i = 0; i < count; ++i) {
      double expected = 0;
      for (int64_t k = 0; k < depth; ++k)
        expected += static_cast<double>(weights[static_cast<size_t>(k)]) * rows[static_cast<size_t>(k * count + i)];
      ASSERT_NEAR(y[static_cast<size_t>(i)], expected, 1e-4);
    }
    double expected = 0;
    for (size_t k = 0; k < weights.size(); ++k) expected += static_cast<double>(weights[k]) * rows[k];
    ASSERT_NEAR(BestRowKernels().dot(weights.data(), rows.data(), depth), expected, 1e-4);
  }
}

TEST(RowKernels, Rotate) {
  std::mt19937 random(11);
  for (int64_t half = 1; half < 80; ++half)
    for (const bool shared : {false, true}) {
      const int64_t second = shared ? 0 : half;
      const std::vector<float> x = RandomRow(random, 2 * half, 1), cosines = RandomRow(random, half + second, 1),
                               sines = RandomRow(random, half + second, 1);
      std::vector<float> y(x.size(), NAN), same = x;
      BestRowKernels().rotate({x.data(), cosines.data(), sines.data(), y.data(), half, second});
      BestRowKernels().rotate({same.data(), cosines.data(), sines.data(), same.data(), half, second});
      EXPECT_EQ(same, y);
      for (size_t i = 0, h = static_cast<size_t>(half), s = static_cast<size_t>(second); i < h; ++i) {
        const double a = x[i], b = x[h + i];
        ASSERT_NEAR(y[i], a * cosines[i] - b * sines[i], 1e-5);
        ASSERT_NEAR(y[h + i], b * cosines[s + i] + a * sines[s + i], 1e-5);
      }
    }
}

}  // namespace
}  // namespace ferry

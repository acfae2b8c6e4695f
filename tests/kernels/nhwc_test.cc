#include "kernels/nhwc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ferry {
namespace {

std::vector<float> Numbers(std::mt19937& random, size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  return values;
}

TEST(NhwcKernels, ReduceAnyNumberOfPixelsAndChannels) {
  std::mt19937 random(21);
  for (int round = 0; round < 300; ++round) {
    size_t channels = 1 + random() % 70, count = 1 + random() % 12;
    std::vector<float> pixels = Numbers(random, channels * count), largest(channels), sum(channels), rows(channels);
    std::vector<const float*> pointers;
    for (size_t i = 0; i < count; ++i) pointers.push_back(pixels.data() + i * channels);
    auto n = static_cast<int64_t>(count), c = static_cast<int64_t>(channels);
    BestNhwcKernels().largest(pointers.data(), n, c, largest.data());
    BestNhwcKernels().scaled_sum(pointers.data(), n, c, 0.25f, sum.data());
    BestNhwcKernels().scaled_row_sum(pixels.data(), n, c, c, 0.25f, rows.data());
    for (size_t j = 0; j < channels; ++j) {
      float best = -2;
      double total = 0;
      for (size_t i = 0; i < count; ++i) {
        best = std::max(best, pixels[i * channels + j]);
        total += static_cast<double>(pixels[i * channels + j]);
      }
      ASSERT_EQ(largest[j], best);
      ASSERT_NEAR(sum[j], total / 4, 1e-6);
      ASSERT_NEAR(rows[j], total / 4, 1e-6);
    }
  }
}

TEST(NhwcKernels, TheLargestOfNothingIsMinusInfinityAndNanWins) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t at = 0; at < 3; ++at) {
    std::vector<float> values{1, 2, 3}, out(1);
    values[at] = nan;
    std::vector<const float*> pointers{&values[0], &values[1], &values[2]};
    BestNhwcKernels().largest(pointers.data(), 3, 1, out.data());
    EXPECT_TRUE(std::isnan(out[0])) << at;
    BestNhwcKernels().largest(pointers.data(), 0, 1, out.data());
    EXPECT_EQ(out[0], -std::numeric_limits<float>::infinity());
  }
}

TEST(NhwcKernels, ScaleShiftAndLimitEveryChannel) {
  std::mt19937 random(22);
  for (int round = 0; round < 200; ++round) {
    size_t channels = 1 + random() % 40, count = 1 + random() % 5;
    size_t stride = channels + random() % 3 * (random() % 20);
    std::vector<float> x = Numbers(random, stride * count), factor = Numbers(random, channels),
                       offset = Numbers(random, channels), y(channels * count);
    bool shifted = random() % 2, limited = random() % 2;
    Activation activation = limited ? Activation{ActivationKind::kClip, -0.25f, 0.5f} : Activation{};
    BestNhwcKernels().affine(x.data(), static_cast<int64_t>(stride), static_cast<int64_t>(count),
                             static_cast<int64_t>(channels), factor.data(), shifted ? offset.data() : nullptr,
                             activation, y.data());
    for (size_t i = 0; i < y.size(); ++i) {
      float expected =
          x[i / channels * stride + i % channels] * factor[i % channels] + (shifted ? offset[i % channels] : 0.0f);
      if (limited) expected = std::min(std::max(expected, -0.25f), 0.5f);
      ASSERT_NEAR(y[i], expected, 1e-6);
    }
  }
}

TEST(NhwcKernels, ActivateKeepsNanAndReachesTheEnds) {
  float infinity = std::numeric_limits<float>::infinity();
  for (ActivationKind kind : {ActivationKind::kSigmoid, ActivationKind::kSilu}) {
    std::vector<float> x{
        std::numeric_limits<float>::quiet_NaN(), 0.0f, 1.0f, -1.0f, 90.0f, -90.0f, infinity, 20.0f, -20.0f};
    std::vector<float> y = x;
    BestNhwcKernels().activate({kind, 1.0f}, y.data(), static_cast<int64_t>(y.size()));
    EXPECT_TRUE(std::isnan(y[0]));
    for (size_t i = 1; i < x.size(); ++i) {
      double gate = 1 / (1 + std::exp(-static_cast<double>(x[i])));
      double expected = kind == ActivationKind::kSilu ? static_cast<double>(x[i]) * gate : gate;
      if (std::isinf(expected))
        EXPECT_EQ(y[i], expected);
      else
        EXPECT_NEAR(y[i], expected, 3e-7 * std::max(1.0, std::abs(expected))) << x[i];
    }
  }
}

TEST(NhwcKernels, EveryActivationKeepsNan) {
  for (ActivationKind kind :
       {ActivationKind::kRelu, ActivationKind::kClip, ActivationKind::kLeakyRelu, ActivationKind::kSigmoid,
        ActivationKind::kSilu, ActivationKind::kHardSigmoid, ActivationKind::kHardSwish, ActivationKind::kTanh,
        ActivationKind::kGelu, ActivationKind::kGeluTanh}) {
    std::vector<float> y(19, std::numeric_limits<float>::quiet_NaN());
    BestNhwcKernels().activate({kind, 0.5f, 1.0f}, y.data(), static_cast<int64_t>(y.size()));
    for (float value : y) EXPECT_TRUE(std::isnan(value)) << static_cast<int>(kind);
  }
}

TEST(NhwcKernels, InterleaveThreeColors) {
  for (size_t count = 0; count < 40; ++count) {
    std::vector<float> planes(3 * count), to(3 * count + 1, -1.0f);
    for (size_t c = 0; c < 3; ++c)
      for (size_t i = 0; i < count; ++i) planes[c * count + i] = static_cast<float>(3 * i + c);
    BestNhwcKernels().interleave3(planes.data(), planes.data() + count, planes.data() + 2 * count,
                                  static_cast<int64_t>(count), to.data());
    for (size_t i = 0; i < 3 * count; ++i) ASSERT_EQ(to[i], static_cast<float>(i));
    ASSERT_EQ(to.back(), -1.0f);
  }
}

TEST(NhwcKernels, InterleaveTwoHalves) {
  for (size_t count = 0; count < 40; ++count) {
    std::vector<float> a(count), b(count), to(2 * count);
    for (size_t i = 0; i < count; ++i) a[i] = static_cast<float>(2 * i), b[i] = static_cast<float>(2 * i + 1);
    BestNhwcKernels().interleave(a.data(), b.data(), static_cast<int64_t>(count), to.data());
    for (size_t i = 0; i < to.size(); ++i) ASSERT_EQ(to[i], static_cast<float>(i));
  }
}

}  // namespace
}  // namespace ferry

// What operators mean in PyTorch where ONNX's of the same name mean something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/torch/lower_call.h"
#include "tests/torch/script_run.h"

namespace ferry::torch {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> CountUp(size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 0.0f);
  return x;
}

std::string Upsampled(const std::string& op, const std::string& factor) {
  return "    y = torch." + op + "(torch.unsqueeze(torch.unsqueeze(x, 0), 0), None, [" + factor +
         "])\n"
         "    return torch.flatten(y)\n";
}

// The neighbour of place i is floor(i · float(1 / factor)).
TEST(Meaning, NearestNeighboursByFactors) {
  for (double factor : {0.3, 0.6, 1.3, 1.7, 2.0, 0.5, 41.0}) {
    for (size_t n : {1u, 5u, 10u, 17u, 100u}) {
      auto step = static_cast<float>(1 / factor);
      std::vector<float> expected;
      for (int i = 0; i < static_cast<int>(static_cast<double>(n) * factor); ++i)
        expected.push_back(std::min(std::floor(static_cast<float>(i) * step), static_cast<float>(n - 1)));
      EXPECT_EQ(RunBody(Upsampled("upsample_nearest1d", std::to_string(factor)), CountUp(n)), expected)
          << factor << " of " << n;
    }
  }
  EXPECT_THAT(RunBody(Upsampled("_upsample_nearest_exact1d", "0.6"), CountUp(5)), ElementsAre(0, 2, 4));
}

TEST(Meaning, NearestNeighboursBySizes) {
  std::string body =
      "    n = torch.floordiv(torch.mul(torch.size(x, 0), 4), 3)\n"
      "    y = torch.upsample_nearest1d(torch.unsqueeze(torch.unsqueeze(x, 0), 0), [n], None)\n"
      "    return torch.flatten(y)\n";
  EXPECT_THAT(RunBody(body, CountUp(9)), ElementsAre(0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8));
}

// 0.29 · 100 is 28.999999999999996: 28 pixels, though as floats it is 29. And 1.1 · 10 is 11 pixels either way.
TEST(Meaning, SizesByFactorsAreComputedInDouble) {
  auto size = [](const char* factor, size_t n) {
    std::string body = std::string(
                           "    y = torch.upsample_linear1d(torch.unsqueeze(torch.unsqueeze(x, 0), 0), None, "
                           "False, [") +
                       factor + "])\n    return torch.flatten(y)\n";
    return RunBody(body, CountUp(n)).size();
  };
  for (const char* factor : {"0.29", "0.7", "1.1", "1.7", "2.3", "0.57"})
    for (size_t n : {7u, 10u, 30u, 50u, 100u, 1000u})
      EXPECT_EQ(size(factor, n), static_cast<size_t>(std::floor(static_cast<double>(n) * std::stod(factor))))
          << factor << " of " << n;
}

TEST(Meaning, NothingIsNotAny) {
  std::string body = "    return torch.to(torch.any(torch.gt(x, 0.)), 6)\n";
  for (int opset : {13, 18, 20}) {
    EXPECT_THAT(RunBody(body, {}, opset), ElementsAre(0)) << opset;
    EXPECT_THAT(RunBody(body, {-1, 2}, opset), ElementsAre(1)) << opset;
    EXPECT_THAT(RunBody("    return torch.to(torch.all(torch.gt(x, 0.)), 6)\n", {}, opset), ElementsAre(1)) << opset;
  }
}

TEST(Meaning, AveragesOfOneOpenSizeRoundUp) {
  std::string image = "    i = torch.reshape(x, [1, 1, 5, -1])\n";
  std::string pool = "torch.avg_pool2d(i, [2, 2], [2, 2], [0, 0], True, True, ";
  EXPECT_THAT(RunBody(image + "    return torch.flatten(" + pool + "None))\n", CountUp(15)),
              ElementsAre(2, 3.5f, 8, 9.5f, 12.5f, 14));
  EXPECT_THAT(RefusalOf(image + "    return torch.flatten(" + pool + "3))\n"), HasSubstr("divisor_override"));
}

TEST(Meaning, BernoulliInPlaceTossesWithItsOwnChance) {
  std::string body = "    y = torch.mul(x, 7.)\n    _0 = torch.bernoulli_(y, 1.)\n    return y\n";
  EXPECT_THAT(RunBody(body, CountUp(50)), Each(1));
  std::vector<float> even =
      RunBody("    y = torch.mul(x, 0.)\n    _0 = torch.bernoulli_(y)\n    return y\n", CountUp(400));
  EXPECT_NEAR(std::accumulate(even.begin(), even.end(), 0.0f), 200, 80);
}

TEST(Meaning, NormalAroundTensors) {
  EXPECT_EQ(RunBody("    return torch.normal(x, 0.)\n", CountUp(5)), CountUp(5));
  EXPECT_EQ(RunBody("    return torch.normal(x, torch.mul(x, 0.))\n", CountUp(5)), CountUp(5));
  EXPECT_THAT(RunBody("    return torch.normal(3., torch.mul(x, 0.))\n", CountUp(3)), Each(3));
  EXPECT_EQ(RunBody("    return torch.normal(0., 1., [5])\n", {1}).size(), 5u);
  EXPECT_THAT(RunBody("    y = torch.mul(x, 1)\n    _0 = torch.normal_(y, 2., 0.)\n    return y\n", {1, 5}), Each(2));
}

TEST(Meaning, LogarithmsOfPowersAreWhole) {
  std::vector<float> powers, exponents;
  for (int i = -37; i < 38; ++i) {
    powers.push_back(std::ldexp(1.0f, i));
    exponents.push_back(static_cast<float>(i));
  }
  EXPECT_EQ(RunBody("    return torch.log2(x)\n", powers), exponents);
  EXPECT_THAT(RunBody("    return torch.log10(x)\n", {1, 10, 100, 1000, 1e6f}), ElementsAre(0, 1, 2, 3, 6));
}

TEST(Meaning, PowersOfSizesAreFloats) {
  EXPECT_THAT(RunBody("    return torch.mul(x, torch.pow(torch.size(x, 0), -1))\n", {2, 4}), ElementsAre(1, 2));
}

TEST(Meaning, NaNHasNoSign) {
  EXPECT_THAT(RunBody("    return torch.sign(x)\n", {NAN, -2, 0, 3}), ElementsAre(0, -1, 0, 1));
  EXPECT_THAT(RunBody("    return torch.sgn(x)\n", {NAN, -2}), ElementsAre(0, -1));
}

TEST(Meaning, SmallIntegersAreDividedAtTheirEnds) {
  Tensor y = LowerAndRun("aten.floor_divide.default", {{"self", Tensor::FromVector<int8_t>({-128, 127, -127})},
                                                       {"other", Tensor::FromVector<int8_t>({3, 3, -3})}})[0];
  EXPECT_EQ(y.dtype(), DType::kInt8);
  EXPECT_THAT(y.Span<int8_t>(), ElementsAre(-43, 42, 42));
}

TEST(Meaning, RangesOfOpenLength) {
  auto sum = [](const std::string& begin, const std::string& end, const std::string& step, size_t n) {
    std::string body = "    y = torch.mul(x, 0)\n    n = torch.size(x, 0)\n    k = torch.__range_length(" + begin +
                       ", " + end + ", " + step + ")\n    for j in range(k):\n      i = torch.__derive_index(j, " +
                       begin + ", " + step + ")\n      y = torch.add(torch.mul(y, 10), i)\n    return y\n";
    return RunBody(body, CountUp(n))[0];
  };
  EXPECT_EQ(sum("1", "n", "1", 4), 123);
  EXPECT_EQ(sum("1", "n", "1", 1), 0);
  EXPECT_EQ(sum("0", "n", "2", 5), 24);
  EXPECT_EQ(sum("torch.sub(n, 1)", "-1", "-1", 4), 3210);
  EXPECT_EQ(sum("torch.sub(n, 1)", "0", "-2", 6), 531);
  EXPECT_EQ(sum("3", "n", "1", 2), 0);
}

TEST(Meaning, FloatsBesideOpenIntegers) {
  EXPECT_THAT(RunBody("    return torch.mul(x, torch.mul(torch.size(x, 0), 1.5))\n", {1, 2}), ElementsAre(3, 6));
  EXPECT_THAT(RunBody("    if torch.gt(torch.size(x, 0), 1.5):\n      y = torch.neg(x)\n    else:\n      y = x\n"
                      "    return y\n",
                      {1, 2}),
              ElementsAre(-1, -2));
}

TEST(Meaning, WindowsOfSamples) {
  EXPECT_THAT(RunBody("    return torch.hann_window(4)\n", {0}), ElementsAre(0, 0.5f, 1, 0.5f));
  EXPECT_THAT(RunBody("    return torch.hann_window(3, False)\n", {0}), ElementsAre(0, 1, 0));
  EXPECT_THAT(RunBody("    return torch.bartlett_window(4)\n", {0}), ElementsAre(0, 0.5f, 1, 0.5f));
  EXPECT_THAT(RunBody("    return torch.hamming_window(1)\n", {0}), ElementsAre(1));
}

TEST(Meaning, SequencesAreFilledUp) {
  std::string body =
      "    y = torch.pad_sequence([x, torch.slice(x, 0, 1, 9, 1)], True, 7.)\n    return torch.flatten(y)\n";
  EXPECT_THAT(RunBody(body, {1, 2, 3}), ElementsAre(1, 2, 3, 2, 3, 7));
  EXPECT_THAT(
      RunBody("    y = torch.pad_sequence([torch.slice(x, 0, 1, 9, 1), x])\n    return torch.flatten(y)\n", {1, 2, 3}),
      ElementsAre(2, 1, 3, 2, 0, 3));
}

TEST(Meaning, FunctionsOfOpenNumbers) {
  auto scaled = [](const std::string& factor) {
    return RunBody("    n = torch.size(x, 0)\n    return torch.mul(x, " + factor + ")\n", {1, 1, 1, 1})[0];
  };
  EXPECT_EQ(scaled("torch.abs(torch.sub(n, 7))"), 3);
  EXPECT_EQ(scaled("torch.log2(n)"), 2);
  EXPECT_FLOAT_EQ(scaled("torch.log(n)"), std::log(4.0f));
  EXPECT_EQ(scaled("torch.round(torch.mul(n, 0.6))"), 2);
}

TEST(Meaning, NormsOfMatrices) {
  std::string body = "    m = torch.reshape(x, [2, 2])\n    return torch.reshape(torch.linalg_matrix_norm(m), [1])\n";
  EXPECT_THAT(RunBody(body, {1, 1, 1, 1}), ElementsAre(2));
  body =
      "    m = torch.reshape(x, [2, 2])\n    y = torch.linalg_matrix_norm(m, \"fro\", [-2, -1])\n    return "
      "torch.reshape(y, [1])\n";
  EXPECT_THAT(RunBody(body, {1, 1, 1, 1}), ElementsAre(2));
}

}  // namespace
}  // namespace ferry::torch

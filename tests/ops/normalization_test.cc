#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/nodes.h"

namespace ferry::testing {
namespace {

Tensor Floats(const std::vector<float>& values, const Shape& shape) { return Tensor::FromVector(values, shape); }

void ExpectNear(const Value& value, const std::vector<float>& expected, float tolerance = 1e-5f) {
  std::vector<float> got = Elements<float>(value);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
}

TEST(LayerNormalization, ParametersThatVaryOverRows) {
  Tensor x = Floats({1, 3, 5, 9}, {2, 2});
  // Shape [2, 1] has as many elements as a row and must not be taken for one.
  Value y = RunNode(OneNode("LayerNormalization", 3, {{"epsilon", 0.0f}}),
                    {x, Floats({1, 10}, {2, 1}), Floats({0, 100}, {2, 1})})[0];
  ExpectNear(y, {-1, 1, 90, 110}, 1e-3f);
  std::vector<Value> all =
      RunNode(OneNode("LayerNormalization", 2, {{"epsilon", 0.0f}}, "", 3), {x, Floats({1, 1}, {2})});
  EXPECT_EQ(all[1].tensor().shape(), (Shape{2, 1}));
  ExpectNear(all[1], {2, 7});
  ExpectNear(all[2], {1, 0.5f});
  EXPECT_THROW(RunNode(OneNode("LayerNormalization", 2), {x, Floats({1, 2, 3}, {3})}), Error);
}

TEST(LayerNormalization, SurvivesALargeMean) {
  Tensor x = Floats({100000, 100001, 100002, 100003}, {1, 4});
  Value y = RunNode(OneNode("LayerNormalization", 2), {x, Floats({1, 1, 1, 1}, {4})})[0];
  ExpectNear(y, {-1.3416354f, -0.4472118f, 0.4472118f, 1.3416354f}, 1e-4f);
}

TEST(RMSNormalization, TakesTheScalesType) {
  Value y = RunNode(OneNode("RMSNormalization", 2, {{"epsilon", 0.0f}}),
                    {Floats({3, 4}, {1, 2}), Tensor::FromVector<double>({1, 2})})[0];
  EXPECT_EQ(y.tensor().dtype(), DType::kDouble);
  EXPECT_NEAR(Elements<double>(y)[1], 8 / std::sqrt(12.5), 1e-9);
}

TEST(GroupNormalization, GroupsMustDivideTheChannels) {
  Tensor x = Floats({1, 3, 5, 9}, {1, 4, 1}), ones = Floats({1, 1, 1, 1}, {4}), zeros = Floats({0, 0, 0, 0}, {4});
  Value y =
      RunNode(OneNode("GroupNormalization", 3, {{"num_groups", int64_t{2}}, {"epsilon", 0.0f}}), {x, ones, zeros})[0];
  ExpectNear(y, {-1, 1, -1, 1});
  EXPECT_THROW(RunNode(OneNode("GroupNormalization", 3, {{"num_groups", int64_t{3}}}), {x, ones, zeros}), Error);
  EXPECT_THROW(RunNode(OneNode("GroupNormalization", 3, {{"num_groups", int64_t{0}}}), {x, ones, zeros}), Error);
  EXPECT_THROW(RunNode(OneNode("InstanceNormalization", 3), {x, Floats({1}, {1}), zeros}), Error);
}

TEST(BatchNormalization, AVectorIsABatchOfOneChannel) {
  Tensor one = Floats({1}, {1}), zero = Floats({0}, {1});
  Value y = RunNode(OneNode("BatchNormalization", 5, {{"epsilon", 0.0f}}),
                    {Floats({2, 4}, {2}), one, zero, one, Floats({4}, {1})})[0];
  ExpectNear(y, {0.5f, 1.5f});
  std::vector<Value> trained = RunNode(
      OneNode("BatchNormalization", 5, {{"epsilon", 0.0f}, {"training_mode", int64_t{1}}, {"momentum", 0.5f}}, "", 3),
      {Floats({2, 4}, {2}), one, zero, zero, one});
  ExpectNear(trained[0], {-1, 1});
  ExpectNear(trained[1], {1.5f});
  ExpectNear(trained[2], {1});
}

TEST(LpNormalization, AbsoluteValuesAndZeroLines) {
  Tensor x = Floats({-1, 3, 0, 0}, {2, 2});
  ExpectNear(RunNode(OneNode("LpNormalization", 1, {{"p", int64_t{1}}}), {x})[0], {-0.25f, 0.75f, 0, 0});
  EXPECT_THROW(RunNode(OneNode("LpNormalization", 1, {{"p", int64_t{3}}}), {x}), Error);
}

TEST(LRN, WindowsOfEvenSizeReachFurtherUp) {
  Tensor x = Floats({1, 2, 3}, {1, 3, 1});
  Value y = RunNode(OneNode("LRN", 1, {{"size", int64_t{2}}, {"alpha", 2.0f}, {"beta", 1.0f}, {"bias", 0.0f}}), {x})[0];
  ExpectNear(y, {1.0f / 5, 2.0f / 13, 3.0f / 9});
  EXPECT_THROW(RunNode(OneNode("LRN", 1, {{"size", int64_t{0}}}), {x}), Error);
}

TEST(CrossEntropy, IgnoredLabelsAndBadOnes) {
  Tensor scores = Floats({0, 0, 0, 0, 1, 2}, {2, 3});
  auto loss = [&](std::vector<int64_t> labels, std::vector<Attribute> attributes) {
    return RunNode(OneNode("SoftmaxCrossEntropyLoss", 2, std::move(attributes)),
                   {scores, Tensor::FromVector(labels)})[0];
  };
  ExpectNear(loss({1, -5}, {{"ignore_index", int64_t{-5}}}), {std::log(3.0f)});
  ExpectNear(loss({1, -5}, {{"ignore_index", int64_t{-5}}, {"reduction", std::string("none")}}), {std::log(3.0f), 0});
  EXPECT_NE(ErrorOf([&] { loss({1, 3}, {}); }).find("label 3"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { loss({1, -1}, {}); }).find("label -1"), std::string::npos);
  EXPECT_THROW(loss({1}, {}), Error);
  EXPECT_THROW(loss({1, 1}, {{"reduction", std::string("most")}}), Error);
}

TEST(Optimizers, InputsMustComeInSets) {
  Value r = Tensor::Scalar<float>(0.1f), t = Tensor::Scalar<int64_t>(0), x = Tensor::FromVector<float>({1});
  EXPECT_THROW(RunNode(OneNode("Adam", 5, {}, kTrainingDomain), {r, t, x, x, x}), Error);
  EXPECT_THROW(RunNode(OneNode("Adagrad", 5, {}, kTrainingDomain), {r, t, x, x, Tensor::FromVector<float>({1, 2})}),
               Error);
  EXPECT_THROW(RunNode(OneNode("Momentum", 5, {}, kTrainingDomain), {r, t, x, x, x}), Error);
}

TEST(ImageScaler, ScalesAndAddsTheBiasOfTheChannel) {
  Node node = testing::OneNode("ImageScaler", 1, {{"scale", 2.0f}, {"bias", std::vector<float>{10, 20}}});
  Value x = Tensor::FromVector<float>({1, 2, 3, 4}, {1, 2, 1, 2});
  EXPECT_EQ(testing::Elements<float>(testing::RunNode(node, {x})[0]), (std::vector<float>{12, 14, 26, 28}));
  node.attributes.clear();
  EXPECT_EQ(testing::Elements<float>(testing::RunNode(node, {x})[0]), (std::vector<float>{1, 2, 3, 4}));
  node.Set("bias", std::vector<float>{1});
  EXPECT_THROW(testing::RunNode(node, {x}), Error);
  EXPECT_THROW(testing::RunNode(node, {Tensor::FromVector<float>({1, 2})}), Error);
}

}  // namespace
}  // namespace ferry::testing

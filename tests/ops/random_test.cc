#include "ops/support/random.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/nodes.h"

namespace ferry::testing {
namespace {

TEST(RandomState, DrawsAsNumpysLegacyGenerator) {
  // numpy.random.RandomState(0).random_sample(3) and .standard_normal(2)
  RandomState uniform(0);
  EXPECT_DOUBLE_EQ(uniform.Uniform(), 0.5488135039273248);
  EXPECT_DOUBLE_EQ(uniform.Uniform(), 0.7151893663724195);
  EXPECT_DOUBLE_EQ(uniform.Uniform(), 0.6027633760716439);
  RandomState normal(0);
  EXPECT_DOUBLE_EQ(normal.Normal(), 1.764052345967664);
  EXPECT_DOUBLE_EQ(normal.Normal(), 0.4001572083672233);
}

TEST(Random, SeedsRepeatAndTheirAbsenceDoesNot) {
  std::vector<Attribute> shape = {{"shape", std::vector<int64_t>{4, 5}}};
  std::vector<Attribute> seeded = shape;
  seeded.emplace_back("seed", 7.0f);
  for (const char* op : {"RandomUniform", "RandomNormal"}) {
    EXPECT_TRUE(Identical(RunNode(OneNode(op, 0, seeded), {})[0], RunNode(OneNode(op, 0, seeded), {})[0])) << op;
    EXPECT_FALSE(Identical(RunNode(OneNode(op, 0, shape), {})[0], RunNode(OneNode(op, 0, shape), {})[0])) << op;
  }
}

TEST(Random, StaysInItsRange) {
  Node node = OneNode("RandomUniformLike", 1, {{"low", 2.0f}, {"high", 3.0f}, {"dtype", int64_t{1}}, {"seed", -1.5f}});
  for (float value : Elements<float>(RunNode(node, {Tensor(DType::kInt8, {100})})[0])) {
    EXPECT_GE(value, 2);
    EXPECT_LE(value, 3);
  }
  EXPECT_THROW(RunNode(OneNode("RandomUniformLike", 1), {Tensor(DType::kInt8, {100})}), Error);
  EXPECT_THROW(RunNode(OneNode("RandomUniform", 0, {{"shape", std::vector<int64_t>{-1}}}), {}), Error);
}

TEST(Bernoulli, CertaintiesAreCertain) {
  Value y = RunNode(OneNode("Bernoulli", 1, {{"dtype", int64_t{9}}}), {Tensor::FromVector<float>({0, 1, 0, 1})})[0];
  EXPECT_EQ(Elements<bool>(y), (std::vector<bool>{false, true, false, true}));
}

TEST(Multinomial, DrawsOnlyPossibleClasses) {
  Tensor log_odds = Tensor::FromVector<float>({-INFINITY, 0, -INFINITY, 0, -INFINITY, -INFINITY}, {2, 3});
  Node node = OneNode("Multinomial", 1, {{"sample_size", int64_t{20}}, {"seed", 3.0f}});
  std::vector<int32_t> drawn = Elements<int32_t>(RunNode(node, {log_odds})[0]);
  ASSERT_EQ(drawn.size(), 40u);
  for (size_t i = 0; i < 40; ++i) EXPECT_EQ(drawn[i], i < 20 ? 1 : 0);
  EXPECT_THROW(RunNode(node, {Tensor(DType::kFloat, {2, 0})}), Error);
}

TEST(Dropout, OnlyTrainingDropsAndRatiosAreChecked) {
  Tensor x = Tensor::FromVector<float>({1, 2, 3});
  std::vector<Value> kept = RunNode(OneNode("Dropout", 2, {}, "", 2), {x, Tensor::Scalar<float>(2)});
  EXPECT_EQ(Elements<float>(kept[0]), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(Elements<bool>(kept[1]), (std::vector<bool>{true, true, true}));
  Value trains = Tensor::Scalar<bool>(true);
  EXPECT_THROW(RunNode(OneNode("Dropout", 3), {x, Tensor::Scalar<float>(1), trains}), Error);
  // The mask is RandomState(0).uniform(0, 1, 3) >= 0.6.
  std::vector<Value> dropped =
      RunNode(OneNode("Dropout", 3, {{"seed", int64_t{0}}}, "", 2), {x, Tensor::Scalar<float>(0.6f), trains});
  EXPECT_EQ(Elements<bool>(dropped[1]), (std::vector<bool>{false, true, true}));
  EXPECT_NEAR(Elements<float>(dropped[0])[1], 5, 1e-5);
}

}  // namespace
}  // namespace ferry::testing

#include "measure/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "ops/support/widen.h"

namespace ferry {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Difference CompareFloats(std::vector<float> actual, std::vector<float> expected, Tolerance tolerance = {}) {
  return Compare(Tensor::FromVector(actual), Tensor::FromVector(expected), tolerance);
}

TEST(Difference, FollowsTheAllcloseRule) {
  Tolerance tolerance{.rtol = 0.1, .atol = 0.5};
  EXPECT_TRUE(CompareFloats({11.4f}, {10}, tolerance).within());
  EXPECT_FALSE(CompareFloats({11.6f}, {10}, tolerance).within());
  EXPECT_TRUE(CompareFloats({0.5f}, {0}, tolerance).within());
  EXPECT_FALSE(CompareFloats({0.6f}, {0}, tolerance).within());
}

TEST(Difference, MeasuresAbsoluteAndRelative) {
  Difference d = CompareFloats({1, 2.5f, 0.25f}, {1, 2, 0});
  EXPECT_EQ(d.elements, 3);
  EXPECT_EQ(d.outside, 2);
  EXPECT_DOUBLE_EQ(d.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(d.mean_abs, 0.25);
  EXPECT_DOUBLE_EQ(d.max_rel, 0.25);
  EXPECT_DOUBLE_EQ(d.mean_rel, 0.125);
  EXPECT_EQ(d.Explain(), "2 of 3 elements differ, the first at [1] 2.5 instead of 2");
}

TEST(Difference, NanEqualsOnlyNan) {
  EXPECT_TRUE(CompareFloats({kNan}, {kNan}).within());
  EXPECT_FALSE(CompareFloats({kNan}, {1}).within());
  EXPECT_FALSE(CompareFloats({1}, {kNan}).within());
}

TEST(Difference, AnInfinityEqualsOnlyItself) {
  EXPECT_TRUE(CompareFloats({kInfinity, -kInfinity}, {kInfinity, -kInfinity}).within());
  EXPECT_FALSE(CompareFloats({kInfinity}, {-kInfinity}).within());
  EXPECT_FALSE(CompareFloats({1e30f}, {kInfinity}).within());
  EXPECT_FALSE(CompareFloats({kInfinity}, {1e30f}).within());
}

TEST(Difference, IntegersAreExactWhateverTheTolerance) {
  Tolerance wide{.rtol = 1, .atol = 100};
  EXPECT_FALSE(Compare(Tensor::Scalar<int64_t>(7), Tensor::Scalar<int64_t>(8), wide).within());
  uint64_t large = (uint64_t{1} << 63) + 1;
  EXPECT_TRUE(Compare(Tensor::Scalar(large), Tensor::Scalar(large), wide).within());
  EXPECT_FALSE(Compare(Tensor::Scalar(large), Tensor::Scalar(large + 1), wide).within());
  EXPECT_FALSE(Compare(Tensor::Scalar(true), Tensor::Scalar(false), wide).within());
  Tensor nibbles = Tensor::Pack(DType::kInt4, Tensor::FromVector<int8_t>({-8, 7, 3}));
  Tensor others = Tensor::Pack(DType::kInt4, Tensor::FromVector<int8_t>({-8, 7, 2}));
  EXPECT_TRUE(Compare(nibbles, nibbles, wide).within());
  EXPECT_EQ(Compare(nibbles, others, wide).Explain(), "1 of 3 elements differ, the first at [2] 3 instead of 2");
}

TEST(Difference, IntegersMayBeOffWhereACaseSaysSo) {
  Tolerance one{.rtol = 0, .atol = 0, .integers = 1};
  EXPECT_TRUE(Compare(Tensor::Scalar<uint8_t>(7), Tensor::Scalar<uint8_t>(8), one).within());
  EXPECT_FALSE(Compare(Tensor::Scalar<uint8_t>(7), Tensor::Scalar<uint8_t>(9), one).within());
  EXPECT_FALSE(Compare(Tensor::Scalar(true), Tensor::Scalar(false), one).within());
}

TEST(Difference, StringsAreExact) {
  Tensor a = Tensor::FromVector<std::string>({"cat", "dog"}), b = Tensor::FromVector<std::string>({"cat", "dot"});
  EXPECT_TRUE(Compare(a, a, {}).within());
  EXPECT_EQ(Compare(a, b, {}).Explain(), "1 of 2 elements differ, the first at [1] 'dog' instead of 'dot'");
}

TEST(Difference, TypesAndShapesMustBeEqual) {
  EXPECT_EQ(Compare(Tensor::Scalar(1.0f), Tensor::Scalar(1.0), {}).Explain(), "element type float instead of double");
  EXPECT_EQ(Compare(Tensor::Zeros(DType::kFloat, {2}), Tensor::Zeros(DType::kFloat, {2, 1}), {}).Explain(),
            "shape [2] instead of [2, 1]");
}

TEST(Difference, SmallFloatsAreComparedByTheirValues) {
  Tensor one = NarrowFromFloat(Tensor::FromVector<float>({1, 1000}), DType::kBFloat16);
  Tensor other = NarrowFromFloat(Tensor::FromVector<float>({1, 1008}), DType::kBFloat16);
  EXPECT_TRUE(Compare(one, other, {.rtol = 0.01, .atol = 0}).within());
  EXPECT_FALSE(Compare(one, other, {.rtol = 0.001, .atol = 0}).within());
}

TEST(Difference, RecordingsMayStandInForTypesThatNumpyLacks) {
  Tensor half = NarrowFromFloat(Tensor::FromVector<float>({1, 2}), DType::kBFloat16);
  Tensor floats = Tensor::FromVector<float>({1, 2});
  EXPECT_FALSE(Compare(half, floats, {}).within());
  EXPECT_TRUE(Compare(half, floats, {}, TypeRule::kRecorded).within());
  EXPECT_FALSE(Compare(floats, Tensor::FromVector<double>({1, 2}), {}, TypeRule::kRecorded).within());
}

TEST(Difference, AComplexRecordingIsHeldAgainstPairs) {
  Tensor pairs = Tensor::FromVector<float>({1, 2, 3, 4}, {2, 2});
  Tensor complex = Tensor::FromVector<std::complex<float>>({{1, 2}, {3, 4}});
  EXPECT_TRUE(Compare(pairs, complex, {}, TypeRule::kRecorded).within());
  EXPECT_FALSE(Compare(pairs, complex, {}, TypeRule::kSame).within());
  Tensor other = Tensor::FromVector<std::complex<float>>({{1, 2}, {3, 5}});
  EXPECT_FALSE(Compare(pairs, other, {}, TypeRule::kRecorded).within());
  EXPECT_FALSE(Compare(pairs.Reshaped({4}), complex, {}, TypeRule::kRecorded).within());
}

TEST(Difference, ContainersAreComparedPartByPart) {
  Value one = Sequence{{Value(Tensor::Scalar(1.0f)), Value(Tensor::Scalar(2.0f))}};
  Value other = Sequence{{Value(Tensor::Scalar(1.0f)), Value(Tensor::Scalar(3.0f))}};
  Value shorter = Sequence{{Value(Tensor::Scalar(1.0f))}};
  EXPECT_TRUE(Compare(one, one, {}).within());
  EXPECT_NE(Compare(one, other, {}).Explain().find("element 1"), std::string::npos);
  EXPECT_EQ(Compare(one, shorter, {}).Explain(), "a sequence of 2 instead of 1");
  EXPECT_FALSE(Compare(one, Value(Nothing{}), {}).within());
  EXPECT_TRUE(Compare(Value(Nothing{}), Value(Nothing{}), {}).within());
}

TEST(Difference, MapsDoNotDependOnTheirOrder) {
  Value one = Map{Tensor::FromVector<int64_t>({1, 2}), Tensor::FromVector<float>({10, 20})};
  Value turned = Map{Tensor::FromVector<int64_t>({2, 1}), Tensor::FromVector<float>({20, 10})};
  Value other = Map{Tensor::FromVector<int64_t>({2, 1}), Tensor::FromVector<float>({10, 20})};
  EXPECT_TRUE(Compare(one, turned, {}).within());
  EXPECT_FALSE(Compare(one, other, {}).within());
}

TEST(Difference, AnEmptyTensorEqualsAnEmptyTensor) {
  EXPECT_TRUE(Compare(Tensor::Zeros(DType::kFloat, {0, 3}), Tensor::Zeros(DType::kFloat, {0, 3}), {}).within());
}

}  // namespace
}  // namespace ferry

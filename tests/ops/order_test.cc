#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::OneNode;
using testing::RunNode;
using Ints = std::vector<int64_t>;

template <class T>
Ints TopIndices(std::vector<T> values, int64_t k, int64_t largest) {
  Node node = OneNode("TopK", 2, {{"largest", largest}}, "", 2);
  return Elements<int64_t>(RunNode(node, {Tensor::FromVector<T>(values), Tensor::FromVector<int64_t>({k})})[1]);
}

TEST(TopK, BreaksTiesByIndexAndPutsNanOnTop) {
  EXPECT_EQ(TopIndices<float>({1, NAN, 3, 3, -NAN, -INFINITY}, 4, 1), (Ints{1, 4, 2, 3}));
  EXPECT_EQ(TopIndices<float>({1, NAN, 3, 3, -INFINITY, 1}, 6, 0), (Ints{4, 0, 5, 2, 3, 1}));
  EXPECT_EQ(TopIndices<double>({-0.0, 0.0, -1e-310}, 3, 1), (Ints{0, 1, 2}));
  EXPECT_EQ(TopIndices<int64_t>({INT64_MIN, INT64_MAX, -1}, 2, 1), (Ints{1, 2}));
  EXPECT_EQ(TopIndices<uint64_t>({1, UINT64_MAX, 5}, 2, 0), (Ints{0, 2}));
  EXPECT_EQ(TopIndices<int8_t>({}, 0, 1), Ints{});
  EXPECT_THAT(ErrorOf([] { TopIndices<float>({1}, 2, 1); }), HasSubstr("K is 2, axis 0 has 1"));
  EXPECT_THAT(ErrorOf([] { TopIndices<float>({1}, -1, 1); }), HasSubstr("K is -1"));
}

TEST(TopK, WorksAlongAnyAxis) {
  Node node = OneNode("TopK", 2, {{"axis", int64_t{0}}}, "", 2);
  auto out = RunNode(node, {Tensor::FromVector<int32_t>({1, 5, 9, 4, 2, 6}, {3, 2}), Tensor::Scalar(int64_t{2})});
  EXPECT_EQ(Elements<int32_t>(out[0]), (std::vector<int32_t>{9, 6, 2, 5}));
  EXPECT_EQ(Elements<int64_t>(out[1]), (Ints{1, 2, 2, 0}));
}

TEST(Unique, KeepsTheOrderOfFirstOccurrence) {
  Node node = OneNode("Unique", 1, {{"sorted", int64_t{0}}, {"axis", int64_t{1}}}, "", 4);
  auto out = RunNode(node, {Tensor::FromVector<int32_t>({2, 1, 2, 3, 5, 4, 5, 4}, {2, 4})});
  EXPECT_EQ(Elements<int32_t>(out[0]), (std::vector<int32_t>{2, 1, 3, 5, 4, 4}));
  EXPECT_EQ(Elements<int64_t>(out[1]), (Ints{0, 1, 3}));
  EXPECT_EQ(Elements<int64_t>(out[2]), (Ints{0, 1, 0, 2}));
  EXPECT_EQ(Elements<int64_t>(out[3]), (Ints{2, 1, 1}));
}

TEST(Unique, SortsStringsComplexNumbersAndNans) {
  Node node = OneNode("Unique", 1, {}, "", 4);
  EXPECT_EQ(Elements<std::string>(RunNode(node, {Tensor::FromVector<std::string>({"b", "a", "b"})})[0]),
            (std::vector<std::string>{"a", "b"}));
  using Complex = std::complex<float>;
  EXPECT_EQ(Elements<Complex>(RunNode(node, {Tensor::FromVector<Complex>({{1, 2}, {1, -1}, {0, 9}, {1, 2}})})[0]),
            (std::vector<Complex>{{0, 9}, {1, -1}, {1, 2}}));
  auto floats = RunNode(node, {Tensor::FromVector<float>({NAN, 0.0f, -0.0f, -NAN})});
  EXPECT_EQ(Elements<int64_t>(floats[1]), (Ints{1, 0}));
  EXPECT_EQ(Elements<int64_t>(floats[3]), (Ints{2, 2}));
  auto empty = RunNode(node, {Tensor(DType::kFloat, {2, 0})});
  EXPECT_EQ(empty[0].tensor().shape(), Shape{0});
  EXPECT_EQ(empty[2].tensor().shape(), Shape{0});
}

TEST(NonMaxSuppression, KeepsBoxesWhoseScoreIsTheThreshold) {
  Node node = OneNode("NonMaxSuppression", 5);
  Value boxes = Tensor::FromVector<float>({0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1.01f}, {1, 3, 4});
  Value scores = Tensor::FromVector<float>({0.5f, 0.25f, 0.6f}, {1, 1, 3});
  auto run = [&](int64_t most, float threshold) {
    return Elements<int64_t>(
        RunNode(node, {boxes, scores, Tensor::Scalar(most), Tensor::Scalar(0.5f), Tensor::Scalar(threshold)})[0]);
  };
  EXPECT_EQ(run(5, 0.25f), (Ints{0, 0, 2, 0, 0, 1}));
  EXPECT_EQ(run(5, 0.3f), (Ints{0, 0, 2}));
  EXPECT_EQ(run(-1, 0.0f), Ints{});
  EXPECT_EQ(RunNode(OneNode("NonMaxSuppression", 2), {boxes, scores})[0].tensor().shape(), (Shape{0, 3}));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("NonMaxSuppression", 2), {boxes, boxes});
              }),
              HasSubstr("scores [batch, classes, n]"));
}

}  // namespace
}  // namespace ferry

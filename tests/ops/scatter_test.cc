#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tensor/small_float.h"
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
Value List(std::vector<T> values) {
  return Tensor::FromVector<T>(values);
}
Value IntTensor(Ints values, Shape shape) { return Tensor::FromVector<int64_t>(values, std::move(shape)); }

Node Scatter(const char* op, std::string reduction) { return OneNode(op, 3, {{"reduction", std::move(reduction)}}); }

template <class T>
std::vector<T> Reduced(std::string reduction, std::vector<T> data, std::vector<T> updates) {
  Ints zeros(updates.size(), 0);
  Value indices = IntTensor(zeros, {static_cast<int64_t>(zeros.size()), 1});
  return Elements<T>(RunNode(Scatter("ScatterND", std::move(reduction)), {List(data), indices, List(updates)})[0]);
}

TEST(ScatterND, ReducesEveryKindOfElement) {
  EXPECT_EQ(Reduced<int8_t>("add", {100}, {100, 1}), (std::vector<int8_t>{-55}));
  EXPECT_EQ(Reduced<uint16_t>("mul", {65535}, {65535}), (std::vector<uint16_t>{1}));
  EXPECT_EQ(Reduced<int64_t>("add", {INT64_MAX}, {1}), (Ints{INT64_MIN}));
  EXPECT_EQ(Reduced<std::string>("add", {"a"}, {"b", "c"}), (std::vector<std::string>{"abc"}));
  EXPECT_EQ(Reduced<std::string>("max", {"a"}, {"c", "b"}), (std::vector<std::string>{"c"}));
  EXPECT_EQ(Reduced<bool>("add", {false}, {true, false}), (std::vector<bool>{true}));
  EXPECT_EQ(Reduced<std::complex<float>>("mul", {{0, 1}}, {{0, 1}}), (std::vector<std::complex<float>>{{-1, 0}}));
  EXPECT_TRUE(std::isnan(Reduced<float>("min", {1}, {NAN, 0})[0]));
  EXPECT_TRUE(std::isnan(Reduced<double>("max", {NAN}, {5})[0]));
  EXPECT_THAT(ErrorOf([] { Reduced<std::complex<float>>("min", {{0, 1}}, {{0, 1}}); }), HasSubstr("not defined"));
  EXPECT_THAT(ErrorOf([] { Reduced<std::string>("mul", {"a"}, {"b"}); }), HasSubstr("not defined"));
  EXPECT_THAT(ErrorOf([] { Reduced<float>("mean", {1}, {2}); }), HasSubstr("'mean' is not one of"));
}

TEST(ScatterND, SumsSmallFloatsOnceRounded) {
  // 2048 + 1 is 2048 in float16; three ones at once are not lost.
  Float16 big = ToFloat16(2048), one = ToFloat16(1);
  Value out = RunNode(Scatter("ScatterND", "add"),
                      {List<Float16>({big}), IntTensor({0, 0, 0, 0}, {4, 1}), List<Float16>({one, one, one, one})})[0];
  EXPECT_EQ(ToFloat(out.tensor().Data<Float16>()[0]), 2052);
}

TEST(ScatterND, ChecksIndicesAndShapes) {
  auto scatter = [](Value indices, Value updates) {
    return RunNode(Scatter("ScatterND", "none"), {IntTensor({1, 2, 3, 4}, {2, 2}), indices, updates})[0];
  };
  EXPECT_EQ(Elements<int64_t>(scatter(IntTensor({-1}, {1, 1}), IntTensor({8, 9}, {1, 2}))), (Ints{1, 2, 8, 9}));
  EXPECT_EQ(Elements<int64_t>(scatter(IntTensor({}, {0, 2}), IntTensor({}, {0}))), (Ints{1, 2, 3, 4}));
  EXPECT_THAT(ErrorOf([&] {
                scatter(IntTensor({0, 2}, {1, 2}), IntTensor({8}, {1}));
              }),
              HasSubstr("index 2 is out of range for axis 1 of size 2"));
  EXPECT_THAT(ErrorOf([&] { scatter(IntTensor({0}, {1, 1}), IntTensor({8}, {1})); }), HasSubstr("expected [1, 2]"));
  EXPECT_THAT(ErrorOf([&] { scatter(IntTensor({0, 0, 0}, {1, 3}), IntTensor({8}, {1})); }), HasSubstr("do not fit"));
}

TEST(ScatterElements, LeavesTheRestAlone) {
  Node node = OneNode("ScatterElements", 3, {{"axis", int64_t{-1}}});
  Value out = RunNode(node, {IntTensor({1, 2, 3, 4, 5, 6}, {2, 3}), Tensor::FromVector<int32_t>({-1}, {1, 1}),
                             IntTensor({9}, {1, 1})})[0];
  EXPECT_EQ(Elements<int64_t>(out), (Ints{1, 2, 9, 4, 5, 6}));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(node, {IntTensor({1}, {1}), IntTensor({0}, {1}), List<float>({1})});
              }),
              HasSubstr("updates are float"));
}

TEST(TensorScatter, WritesAroundTheEnd) {
  Node node = OneNode("TensorScatter", 3, {{"mode", std::string("circular")}});
  Value cache = IntTensor({0, 0, 0, 0, 0, 0}, {2, 3, 1}), update = IntTensor({1, 2, 3, 4}, {2, 2, 1});
  EXPECT_EQ(Elements<int64_t>(RunNode(node, {cache, update, List<int64_t>({2, -1})})[0]), (Ints{2, 0, 1, 4, 0, 3}));
  Node linear = OneNode("TensorScatter", 3);
  EXPECT_THAT(ErrorOf([&] { RunNode(linear, {cache, update, List<int64_t>({2, 0})}); }), HasSubstr("write index 2"));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("TensorScatter", 2, {{"axis", int64_t{0}}}), {cache, update});
              }),
              HasSubstr("batch axis"));
}

}  // namespace
}  // namespace ferry

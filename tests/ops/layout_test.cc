// Blocks, columns, windows and grids: operators that lay an image out differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

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
using Strings = std::vector<std::string>;

Value Counting(Shape shape) {
  Ints values(static_cast<size_t>(shape.ElementCount()));
  std::iota(values.begin(), values.end(), 0);
  return Tensor::FromVector<int64_t>(values, shape);
}
Value List(Ints values) { return Tensor::FromVector<int64_t>(values); }

Node Blocks(const char* op, int64_t size, std::string mode) {
  return OneNode(op, 1, {{"blocksize", size}, {"mode", std::move(mode)}});
}

TEST(DepthToSpace, IsUndoneBySpaceToDepth) {
  for (const char* mode : {"DCR", "CRD"}) {
    Value x = Counting({2, 18, 2, 5});
    Value wide = RunNode(Blocks("DepthToSpace", 3, mode), {x})[0];
    EXPECT_EQ(wide.tensor().shape(), (Shape{2, 2, 6, 15}));
    EXPECT_TRUE(Identical(RunNode(Blocks("SpaceToDepth", 3, mode), {wide})[0], x)) << mode;
  }
  EXPECT_EQ(Elements<int64_t>(RunNode(Blocks("DepthToSpace", 2, "DCR"), {Counting({1, 8, 1, 1})})[0]),
            (Ints{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(Elements<int64_t>(RunNode(Blocks("DepthToSpace", 2, "CRD"), {Counting({1, 8, 1, 1})})[0]),
            (Ints{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(DepthToSpace, RefusesWhatDoesNotDivide) {
  auto run = [](const char* op, int64_t size, std::string mode, Shape shape) {
    return ErrorOf([&] { RunNode(Blocks(op, size, mode), {Counting(shape)}); });
  };
  EXPECT_THAT(run("DepthToSpace", 2, "DCR", {1, 6, 1, 1}), HasSubstr("depth 6 does not divide"));
  EXPECT_THAT(run("SpaceToDepth", 2, "DCR", {1, 1, 3, 2}), HasSubstr("does not divide"));
  EXPECT_THAT(run("SpaceToDepth", 0, "DCR", {1, 1, 2, 2}), HasSubstr("blocksize 0"));
  EXPECT_THAT(run("SpaceToDepth", INT64_MAX, "DCR", {1, 1, 2, 2}), HasSubstr("blocksize"));
  EXPECT_THAT(run("DepthToSpace", 2, "RDC", {1, 4, 1, 1}), HasSubstr("neither DCR nor CRD"));
  EXPECT_THAT(run("DepthToSpace", 2, "DCR", {4, 1, 1}), HasSubstr("four axes"));
}

TEST(ReverseSequence, KeepsWhatIsBeyondTheLength) {
  Node node = OneNode("ReverseSequence", 2, {{"time_axis", int64_t{1}}, {"batch_axis", int64_t{0}}});
  Value text = Tensor::FromVector<std::string>({"a", "b", "c", "d", "e", "f"}, {2, 3});
  EXPECT_EQ(Elements<std::string>(RunNode(node, {text, List({2, 0})})[0]), (Strings{"b", "a", "c", "d", "e", "f"}));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {text, List({4, 1})}); }), HasSubstr("sequence length 4 of sample 0"));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {text, List({-1, 1})}); }), HasSubstr("sequence length -1"));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {text, List({1})}); }), HasSubstr("expected [2]"));
  Node same = OneNode("ReverseSequence", 2, {{"time_axis", int64_t{1}}, {"batch_axis", int64_t{1}}});
  EXPECT_THAT(ErrorOf([&] { RunNode(same, {text, List({1, 1})}); }), HasSubstr("must be 0 and 1"));
}

TEST(CenterCropPad, CutsAndFillsWithTheTypesZero) {
  Node node = OneNode("CenterCropPad", 2);
  Value text = Tensor::FromVector<std::string>({"a", "b", "c"});
  EXPECT_EQ(Elements<std::string>(RunNode(node, {text, List({6})})[0]), (Strings{"", "a", "b", "c", "", ""}));
  EXPECT_EQ(Elements<std::string>(RunNode(node, {text, List({2})})[0]), (Strings{"a", "b"}));
  EXPECT_EQ(RunNode(node, {text, List({0})})[0].tensor().shape(), Shape{0});
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {text, List({-1})}); }), HasSubstr("negative dimension"));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {text, List({1, 1})}); }), HasSubstr("2 numbers for 1 axes"));
}

TEST(EyeLike, DiagonalsMayLieOutside) {
  auto eye = [](int64_t k) {
    Node node = OneNode("EyeLike", 1, {{"k", k}, {"dtype", static_cast<int64_t>(DType::kBFloat16)}});
    std::vector<float> values;
    for (BFloat16 value : Elements<BFloat16>(RunNode(node, {Counting({2, 3})})[0])) values.push_back(ToFloat(value));
    return values;
  };
  EXPECT_EQ(eye(1), (std::vector<float>{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(eye(-1), (std::vector<float>{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(eye(INT64_MIN), std::vector<float>(6, 0));
  EXPECT_EQ(eye(INT64_MAX), std::vector<float>(6, 0));
  EXPECT_THAT(ErrorOf([] { RunNode(OneNode("EyeLike", 1), {Counting({2})}); }), HasSubstr("must be a matrix"));
}

TEST(Col2Im, AddsWhereBlocksOverlap) {
  Node node = OneNode("Col2Im", 3);
  Value ones = Tensor::FromVector<int32_t>({1, 1, 1, 1}, {1, 2, 2});
  EXPECT_EQ(Elements<int32_t>(RunNode(node, {ones, List({1, 3}), List({1, 2})})[0]), (std::vector<int32_t>{1, 2, 1}));
  Value bits = Tensor::FromVector<bool>({true, false, false, false}, {1, 2, 2});
  EXPECT_EQ(Elements<bool>(RunNode(node, {bits, List({1, 3}), List({1, 2})})[0]),
            (std::vector<bool>{true, false, false}));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {ones, List({1, 4}), List({1, 2})}); }), HasSubstr("should be 3"));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {ones, List({1, 3}), List({1, 4})}); }), HasSubstr("do not fit axis 1"));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {ones, List({1, 3}), List({0, 2})}); }), HasSubstr("blocks of 0"));
  EXPECT_THAT(ErrorOf([&] { RunNode(node, {ones, List({1, INT64_MAX}), List({1, 2})}); }), HasSubstr("has size"));
  Node still = OneNode("Col2Im", 3, {{"strides", Ints{0, 1}}});
  EXPECT_THAT(ErrorOf([&] { RunNode(still, {ones, List({1, 3}), List({1, 2})}); }), HasSubstr("strides has 0"));
}

TEST(AffineGrid, KeepsDoublesAndSinglePixels) {
  Value identity = Tensor::FromVector<double>({1, 0, 0, 0, 1, 0}, {1, 2, 3});
  Node aligned = OneNode("AffineGrid", 2, {{"align_corners", int64_t{1}}});
  EXPECT_EQ(Elements<double>(RunNode(aligned, {identity, List({1, 1, 1, 3})})[0]),
            (std::vector<double>{-1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(Elements<double>(RunNode(OneNode("AffineGrid", 2), {identity, List({1, 1, 1, 2})})[0]),
            (std::vector<double>{-0.5, 0, 0.5, 0}));
  EXPECT_THAT(ErrorOf([&] { RunNode(aligned, {identity, List({2, 1, 1, 3})}); }), HasSubstr("expected [2, 2, 3]"));
  EXPECT_THAT(ErrorOf([&] { RunNode(aligned, {identity, List({1, 1, 3})}); }), HasSubstr("has 3 numbers"));
}

}  // namespace
}  // namespace ferry

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/nodes.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::InferNode;
using testing::OneNode;
using testing::Random;
using testing::RunNode;
using Ints = std::vector<int64_t>;

template <class T>
std::vector<T> ResizeTo(std::vector<T> x, int64_t size, std::vector<Attribute> attributes) {
  auto count = static_cast<int64_t>(x.size());
  return Elements<T>(
      RunNode(OneNode("Resize", 4, std::move(attributes)),
              {Tensor::FromVector(x, {count}), Value(), Value(), Tensor::FromVector<int64_t>({size})})[0]);
}

TEST(Resize, EveryNearestModeRoundsItsWay) {
  auto run = [](const char* mode) {
    return ResizeTo<int32_t>({0, 1, 2, 3}, 8,
                             {{"mode", std::string("nearest")},
                              {"nearest_mode", std::string(mode)},
                              {"coordinate_transformation_mode", std::string("asymmetric")}});
  };
  EXPECT_EQ(run("round_prefer_floor"), (std::vector<int32_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(run("round_prefer_ceil"), (std::vector<int32_t>{0, 1, 1, 2, 2, 3, 3, 3}));
  EXPECT_EQ(run("floor"), (std::vector<int32_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(run("ceil"), (std::vector<int32_t>{0, 1, 1, 2, 2, 3, 3, 3}));
}

TEST(Resize, NearestCopiesWhateverTheElementsAre) {
  EXPECT_EQ(ResizeTo<std::string>({"a", "b"}, 4, {}), (std::vector<std::string>{"a", "a", "b", "b"}));
  EXPECT_EQ(ResizeTo<std::complex<double>>({{1, 2}, {3, 4}}, 1, {}), (std::vector<std::complex<double>>{{1, 2}}));
  EXPECT_EQ(Elements<bool>(RunNode(OneNode("Resize", 3), {Tensor::FromVector<bool>({true, false}, {2}), Value(),
                                                          Tensor::FromVector<float>({2.0f})})[0]),
            (std::vector<bool>{true, true, false, false}));
  EXPECT_THAT(ErrorOf([] {
                ResizeTo<std::string>({"a", "b"}, 4, {{"mode", std::string("linear")}});
              }),
              HasSubstr("mode must be nearest"));
}

TEST(Resize, LinearRoundsIntegersAndKeepsConstants) {
  std::vector<Attribute> linear{{"mode", std::string("linear")}};
  EXPECT_EQ(ResizeTo<uint8_t>({0, 255}, 4, linear), (std::vector<uint8_t>{0, 64, 191, 255}));
  EXPECT_EQ((ResizeTo<std::complex<float>>({{0, 4}, {4, 0}}, 4, linear)),
            (std::vector<std::complex<float>>{{0, 4}, {1, 3}, {3, 1}, {4, 0}}));
  for (const char* mode : {"linear", "cubic"})
    for (const char* transform :
         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"})
      for (int64_t antialias : {0, 1})
        for (int64_t exclude : {0, 1})
          for (int64_t size : {1, 2, 3, 7, 20}) {
            std::vector<float> y = ResizeTo<float>({3, 3, 3, 3, 3, 3, 3}, size,
                                                   {{"mode", std::string(mode)},
                                                    {"coordinate_transformation_mode", std::string(transform)},
                                                    {"antialias", antialias},
                                                    {"exclude_outside", exclude}});
            for (float value : y) EXPECT_NEAR(value, 3.0f, 1e-5) << mode << " " << transform << " " << size;
          }
}

TEST(Resize, ManyAxesAtOnceAreOneAfterAnother) {
  Random random(41);
  Tensor x = random.Floats({2, 3, 5, 4});
  Node all = OneNode("Resize", 4, {{"mode", std::string("cubic")}});
  Tensor together = RunNode(all, {x, Value(), Value(), Tensor::FromVector<int64_t>({2, 3, 7, 9})})[0].tensor();
  Node some = OneNode("Resize", 4, {{"mode", std::string("cubic")}, {"axes", Ints{-1}}});
  Tensor step = RunNode(some, {x, Value(), Value(), Tensor::FromVector<int64_t>({9})})[0].tensor();
  some.Set("axes", Ints{2});
  step = RunNode(some, {step, Value(), Value(), Tensor::FromVector<int64_t>({7})})[0].tensor();
  ASSERT_EQ(together.shape(), step.shape());
  for (int64_t i = 0; i < step.size(); ++i) EXPECT_NEAR(together.Data<float>()[i], step.Data<float>()[i], 1e-5);
}

TEST(Resize, OutputSizesAndInference) {
  auto infer = [](std::vector<Attribute> attributes, SymbolicShape x, ValueFacts scales, ValueFacts sizes) {
    Node node = OneNode("Resize", 4, std::move(attributes));
    ValueFacts image{.type = Type::Tensor(DType::kFloat, std::move(x))};
    ValueFacts roi{.type = Type::Tensor(DType::kFloat, SymbolicShape{Dim(0)})};
    std::vector<const ValueFacts*> inputs{&image, &roi, scales.type.known() ? &scales : nullptr,
                                          sizes.type.known() ? &sizes : nullptr};
    InferContext context(node, inputs, 1);
    FindOperator("", "Resize")->infer(context);
    return ToText(context.outputs()[0].type);
  };
  ValueFacts scales{.type = Type::Tensor(DType::kFloat, SymbolicShape{Dim(2)}),
                    .constant = Tensor::FromVector<float>({1.0f, 0.7f})};
  EXPECT_EQ(infer({}, {Dim::Named("n"), 10}, scales, {}), "float[n, 7]");
  ValueFacts sizes{.type = Type::Tensor(DType::kInt64, SymbolicShape{Dim(2)}),
                   .elements = SymbolicShape{Dim::Named("h"), Dim(9)}};
  EXPECT_EQ(infer({}, {Dim::Named("n"), 10}, {}, sizes), "float[h, 9]");
  ValueFacts known{.type = Type::Tensor(DType::kInt64, SymbolicShape{Dim(2)}), .elements = SymbolicShape{6, 9}};
  EXPECT_EQ(infer({{"keep_aspect_ratio_policy", std::string("not_larger")}}, {4, 3}, {}, known), "float[6, 5]");
  EXPECT_EQ(infer({{"keep_aspect_ratio_policy", std::string("not_smaller")}}, {4, 3}, {}, known), "float[12, 9]");
}

TEST(Resize, RefusesSizesThatMakeNoSense) {
  Tensor x = Tensor::Zeros(DType::kFloat, {2});
  auto scale = [&](float s) {
    return ErrorOf([&] { RunNode(OneNode("Resize", 3), {x, Value(), Tensor::FromVector<float>({s})}); });
  };
  for (float bad : {0.0f, -1.0f, INFINITY, NAN}) EXPECT_THAT(scale(bad), HasSubstr("scales must be positive"));
  EXPECT_THAT(scale(1e30f), HasSubstr("out of range"));
  EXPECT_THAT(ErrorOf([&] { RunNode(OneNode("Resize", 1), {x}); }), HasSubstr("exactly one of scales and sizes"));
  EXPECT_THAT(ErrorOf([&] { ResizeTo<float>({}, 3, {}); }), HasSubstr("cannot be resized"));
  EXPECT_THAT(ErrorOf([&] { ResizeTo<float>({1}, -3, {}); }), HasSubstr("cannot be resized to -3"));
  EXPECT_THAT(ErrorOf([&] { ResizeTo<float>({1}, 3, {{"mode", std::string("bicubic")}}); }), HasSubstr("'bicubic'"));
  EXPECT_THAT(ErrorOf([&] { ResizeTo<float>({1}, 3, {{"axes", Ints{1}}}); }), HasSubstr("axis 1 is out of range"));
}

// The identity grid of an image, in normalized coordinates.
Tensor IdentityGrid(int64_t height, int64_t width, bool align) {
  Tensor grid(DType::kFloat, {1, height, width, 2});
  float* to = grid.MutableData<float>();
  auto normal = [&](int64_t i, int64_t n) {
    auto at = static_cast<float>(i), size = static_cast<float>(n);
    return align ? 2 * at / (size - 1) - 1 : (2 * at + 1) / size - 1;
  };
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j) {
      *to++ = normal(j, width);
      *to++ = normal(i, height);
    }
  return grid;
}

TEST(GridSample, TheIdentityGridGivesTheImageBack) {
  Random random(42);
  Tensor x = random.Floats({1, 3, 4, 5});
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (bool align : {false, true}) {
        Node node = OneNode(
            "GridSample", 2,
            {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}, {"align_corners", int64_t{align}}});
        Tensor y = RunNode(node, {x, IdentityGrid(4, 5, align)})[0].tensor();
        for (int64_t i = 0; i < x.size(); ++i)
          EXPECT_NEAR(y.Data<float>()[i], x.Data<float>()[i], 1e-5) << mode << " " << padding << " " << align;
      }
}

TEST(GridSample, PaddingAndWildCoordinates) {
  auto run = [](const char* padding, float at, const char* mode = "linear") {
    Node node = OneNode("GridSample", 2, {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}});
    Tensor x = Tensor::FromVector<float>({1, 2, 3, 4}, {1, 1, 4}), grid = Tensor::FromVector<float>({at}, {1, 1, 1});
    return RunNode(node, {x, grid})[0].tensor().Data<float>()[0];
  };
  EXPECT_EQ(run("zeros", 5), 0);
  EXPECT_EQ(run("border", 5), 4);
  EXPECT_EQ(run("border", -5), 1);
  EXPECT_EQ(run("reflection", 1.25f, "nearest"), 4);
  EXPECT_EQ(run("reflection", 1.75f, "nearest"), 3);
  for (float wild : {NAN, INFINITY, -INFINITY, 1e38f, -1e38f})
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      EXPECT_EQ(run("zeros", wild, mode), 0) << wild;
      EXPECT_TRUE(run("border", wild, mode) >= 1 && run("border", wild, mode) <= 4) << wild;
      float reflected = run("reflection", wild, mode);
      EXPECT_TRUE(reflected >= 0 && reflected <= 5) << wild << " " << reflected;
    }
}

TEST(GridSample, OtherTypesAndErrors) {
  Tensor grid = Tensor::FromVector<float>({-0.5f, 0.5f, 3.0f}, {1, 3, 1});
  auto node = [](const char* mode) { return OneNode("GridSample", 2, {{"mode", std::string(mode)}}); };
  EXPECT_EQ(Elements<std::string>(
                RunNode(node("nearest"), {Tensor::FromVector<std::string>({"a", "b"}, {1, 1, 2}), grid})[0]),
            (std::vector<std::string>{"a", "b", ""}));
  Tensor middle = Tensor::FromVector<float>({0.0f}, {1, 1, 1});
  EXPECT_EQ(Elements<int32_t>(RunNode(node("linear"), {Tensor::FromVector<int32_t>({1, 4}, {1, 1, 2}), middle})[0]),
            std::vector<int32_t>{2});
  EXPECT_EQ(Elements<std::complex<float>>(RunNode(
                node("linear"), {Tensor::FromVector<std::complex<float>>({{0, 2}, {2, 0}}, {1, 1, 2}), middle})[0]),
            (std::vector<std::complex<float>>{{1, 1}}));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(node("linear"), {Tensor::Zeros(DType::kFloat, {2, 1, 2}), grid});
              }),
              HasSubstr("does not fit"));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(node("bilinear"), {Tensor::Zeros(DType::kFloat, {1, 1, 2}), grid});
              }),
              HasSubstr("'bilinear'"));
}

}  // namespace
}  // namespace ferry

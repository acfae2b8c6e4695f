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

// Two spatial axes with everything random, and the plain way to go through a window.
struct RandomPool {
  Ints input, kernel, strides, dilations, pads, output;
  bool ceil_mode;

  explicit RandomPool(Random& random) : pads(4), ceil_mode(random.Bool()) {
    for (size_t a = 0; a < 2; ++a) {
      kernel.push_back(random.Int(1, 4));
      strides.push_back(random.Int(1, 4));
      dilations.push_back(random.Int(1, 2));
      int64_t extent = (kernel[a] - 1) * dilations[a] + 1;
      pads[a] = random.Int(0, kernel[a] - 1);
      pads[a + 2] = random.Int(0, kernel[a] - 1);
      input.push_back(random.Int(extent, 14));
      double steps = static_cast<double>(input[a] + pads[a] + pads[a + 2] - extent) / static_cast<double>(strides[a]);
      int64_t count = static_cast<int64_t>(ceil_mode ? std::ceil(steps) : std::floor(steps)) + 1;
      if (ceil_mode && (count - 1) * strides[a] >= input[a] + pads[a]) --count;
      output.push_back(count);
    }
  }

  Node NodeOf(const char* op, size_t outputs = 1) const {
    return OneNode(op, 1,
                   {{"kernel_shape", kernel},
                    {"strides", strides},
                    {"dilations", dilations},
                    {"pads", pads},
                    {"ceil_mode", int64_t{ceil_mode}}},
                   "", outputs);
  }

  // visit(row, column) for each tap; positions may lie in the padding or beyond it.
  template <class Visit>
  void ForEachTap(int64_t y, int64_t x, const Visit& visit) const {
    for (int64_t i = 0; i < kernel[0]; ++i)
      for (int64_t j = 0; j < kernel[1]; ++j)
        visit(y * strides[0] - pads[0] + i * dilations[0], x * strides[1] - pads[1] + j * dilations[1]);
  }
  bool Inside(int64_t row, int64_t column) const {
    return row >= 0 && row < input[0] && column >= 0 && column < input[1];
  }
  bool Padded(int64_t row, int64_t column) const { return row < input[0] + pads[2] && column < input[1] + pads[3]; }
};

TEST(Pool, AgreesWithPlainLoopsOnRandomShapes) {
  Random random(31);
  for (int round = 0; round < 150; ++round) {
    RandomPool p(random);
    Tensor x = random.Floats({1, 2, p.input[0], p.input[1]});
    Shape shape{1, 2, p.output[0], p.output[1]};
    std::vector<Value> maxima = RunNode(p.NodeOf("MaxPool", 2), {x});
    Tensor alone = RunNode(p.NodeOf("MaxPool"), {x})[0].tensor();
    Node average_node = p.NodeOf("AveragePool"), padded_node = p.NodeOf("AveragePool"), norm_node = p.NodeOf("LpPool");
    padded_node.Set("count_include_pad", int64_t{1});
    norm_node.Set("p", int64_t{3});
    Tensor average = RunNode(average_node, {x})[0].tensor(), padded = RunNode(padded_node, {x})[0].tensor(),
           norm = RunNode(norm_node, {x})[0].tensor();
    ASSERT_EQ(maxima[0].tensor().shape(), shape) << "round " << round;
    ASSERT_EQ(
        ToText(InferNode(p.NodeOf("MaxPool"), {{.type = Type::Tensor(DType::kFloat, ToSymbolic(x.shape()))}})[0].type),
        "float" + ToText(shape));
    for (int64_t i = 0; i < shape.ElementCount(); ++i) {
      int64_t plane = i / (p.output[0] * p.output[1]) * p.input[0] * p.input[1];
      float best = -INFINITY;
      int64_t place = -1;
      double sum = 0, cubes = 0, inside = 0, counted = 0;
      p.ForEachTap(i / p.output[1] % p.output[0], i % p.output[1], [&](int64_t row, int64_t column) {
        counted += p.Padded(row, column);
        if (!p.Inside(row, column)) return;
        float value = x.Data<float>()[plane + row * p.input[1] + column];
        if (value > best) {
          best = value;
          place = plane + row * p.input[1] + column;
        }
        sum += double{value};
        cubes += std::pow(std::abs(double{value}), 3);
        inside += 1;
      });
      ASSERT_EQ(maxima[0].tensor().Data<float>()[i], best);
      ASSERT_EQ(alone.Data<float>()[i], best);
      ASSERT_EQ(maxima[1].tensor().Data<int64_t>()[i], place);
      if (inside > 0) {
        ASSERT_NEAR(average.Data<float>()[i], sum / inside, 1e-5) << "round " << round;
      }
      ASSERT_NEAR(padded.Data<float>()[i], sum / counted, 1e-5) << "round " << round;
      ASSERT_NEAR(norm.Data<float>()[i], std::cbrt(cubes), 1e-5);
    }
  }
}

TEST(MaxPool, NotANumberWinsAndColumnMajorIndices) {
  Tensor x = Tensor::FromVector<float>({1, NAN, 3, 4, 5, 6}, {1, 1, 2, 3});
  Node node = OneNode("MaxPool", 1, {{"kernel_shape", Ints{2, 2}}}, "", 2);
  std::vector<Value> y = RunNode(node, {x});
  EXPECT_TRUE(std::isnan(y[0].tensor().Data<float>()[0]));
  EXPECT_TRUE(std::isnan(y[0].tensor().Data<float>()[1]));
  node.Set("storage_order", int64_t{1});
  Tensor plain = Tensor::FromVector<float>({1, 2, 3, 4, 6, 5}, {1, 1, 2, 3});
  EXPECT_EQ(Elements<int64_t>(RunNode(node, {plain})[1]), (Ints{3, 3}));
  Tensor bytes = Tensor::FromVector<int8_t>({-5, -7, -128, -3}, {1, 1, 2, 2});
  EXPECT_EQ(Elements<int8_t>(RunNode(OneNode("MaxPool", 1, {{"kernel_shape", Ints{1, 2}}}), {bytes})[0]),
            (std::vector<int8_t>{-5, -3}));
}

TEST(Pool, RefusesWindowsThatMakeNoSense) {
  Tensor x = Tensor::Zeros(DType::kFloat, {1, 1, 4, 4});
  auto error = [&](std::vector<Attribute> attributes) {
    return ErrorOf([&] { RunNode(OneNode("MaxPool", 1, attributes), {x}); });
  };
  EXPECT_THAT(error({}), HasSubstr("kernel_shape is missing"));
  EXPECT_THAT(error({{"kernel_shape", Ints{0, 2}}}), HasSubstr("kernel_shape has the value 0"));
  EXPECT_THAT(error({{"kernel_shape", Ints{2}}}), HasSubstr("2 are needed"));
  EXPECT_THAT(error({{"kernel_shape", Ints{9, 9}}}), HasSubstr("does not fit"));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("LpPool", 1, {{"kernel_shape", Ints{2, 2}}, {"p", int64_t{0}}}), {x});
              }),
              HasSubstr("p must be at least 1"));
}

TEST(GlobalPool, ReducesEveryPlane) {
  Tensor x = Tensor::FromVector<double>({1, 2, 3, -4, -5, -6}, {1, 2, 3});
  EXPECT_EQ(Elements<double>(RunNode(OneNode("GlobalAveragePool", 1), {x})[0]), (std::vector<double>{2, -5}));
  EXPECT_EQ(Elements<double>(RunNode(OneNode("GlobalMaxPool", 1), {x})[0]), (std::vector<double>{3, -4}));
  EXPECT_EQ(Elements<double>(RunNode(OneNode("GlobalLpPool", 1, {{"p", int64_t{1}}}), {x})[0]),
            (std::vector<double>{6, 15}));
  Tensor norm = RunNode(OneNode("GlobalLpPool", 1), {x})[0].tensor();
  EXPECT_EQ(norm.shape(), (Shape{1, 2, 1}));
  EXPECT_NEAR(norm.Data<double>()[0], std::sqrt(14.0), 1e-12);
}

TEST(MaxUnpool, PutsValuesBackAndChecksIndices) {
  Node node = OneNode("MaxUnpool", 2, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  Tensor x = Tensor::FromVector<float>({7, 8}, {1, 1, 1, 2});
  EXPECT_EQ(Elements<float>(RunNode(node, {x, Tensor::FromVector<int64_t>({5, 2}, {1, 1, 1, 2})})[0]),
            (std::vector<float>{0, 0, 8, 0, 0, 7, 0, 0}));
  for (int64_t bad : {int64_t{-1}, int64_t{8}, INT64_MAX})
    EXPECT_THAT(ErrorOf([&] {
                  RunNode(node, {x, Tensor::FromVector<int64_t>({0, bad}, {1, 1, 1, 2})});
                }),
                HasSubstr("outside the output"));
}

TEST(RoiAlign, ChecksImagesAndStaysFiniteOnWildRegions) {
  Tensor x = Tensor::FromVector<float>({1, 2, 3, 4}, {1, 1, 2, 2});
  auto run = [&](std::vector<float> roi, int64_t image) {
    return Elements<float>(RunNode(
        OneNode("RoiAlign", 3), {x, Tensor::FromVector<float>(roi, {1, 4}), Tensor::FromVector<int64_t>({image})})[0]);
  };
  EXPECT_EQ(run({0, 0, 2, 2}, 0), std::vector<float>{2.5f});
  EXPECT_EQ(run({NAN, 0, NAN, 2}, 0), std::vector<float>{0});
  EXPECT_THAT(ErrorOf([&] { run({0, 0, 1e30f, 2}, 0); }), HasSubstr("far larger than the image"));
  EXPECT_THAT(ErrorOf([&] { run({0, 0, 1, 1}, 1); }), HasSubstr("is of image 1, there are 1"));
}

TEST(MaxRoiPool, TakesTheLargestOfEachBin) {
  Tensor x = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {1, 1, 4, 4});
  Node node = OneNode("MaxRoiPool", 2, {{"pooled_shape", Ints{2, 2}}});
  EXPECT_EQ(Elements<float>(RunNode(node, {x, Tensor::FromVector<float>({0, 0, 0, 3, 3}, {1, 5})})[0]),
            (std::vector<float>{6, 8, 14, 16}));
  EXPECT_EQ(Elements<float>(RunNode(node, {x, Tensor::FromVector<float>({0, 40, 40, 50, 50}, {1, 5})})[0]),
            (std::vector<float>{0, 0, 0, 0}));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(node, {x, Tensor::FromVector<float>({NAN, 0, 0, 3, 3}, {1, 5})});
              }),
              HasSubstr("is of image"));
}

}  // namespace
}  // namespace ferry

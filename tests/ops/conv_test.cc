#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// Walks all indices below `sizes`, the last one fastest.
template <class Visit>
void ForEachIndex(const std::vector<int64_t>& sizes, const Visit& visit) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  std::vector<int64_t> index(sizes.size());
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat;
    for (size_t a = sizes.size(); a-- > 0; rest /= sizes[a]) index[a] = rest % sizes[a];
    visit(index, flat);
  }
}

struct RandomConv {
  size_t spatial;
  int64_t batch, groups, group_channels, group_features;
  std::vector<int64_t> input, kernel, strides, dilations, pads;

  explicit RandomConv(Random& random)
      : spatial(static_cast<size_t>(random.Int(1, 3))),
        batch(random.Int(1, 2)),
        groups(random.Int(1, 3)),
        group_channels(random.Int(1, 4)),
        group_features(random.Int(1, 9)) {
    pads.resize(2 * spatial);
    for (size_t a = 0; a < spatial; ++a) {
      kernel.push_back(random.Int(1, 3));
      strides.push_back(random.Int(1, 3));
      dilations.push_back(random.Int(1, 2));
      pads[a] = random.Int(0, 2);
      pads[a + spatial] = random.Int(0, 2);
      input.push_back(random.Int((kernel[a] - 1) * dilations[a] + 1, 12));
    }
  }

  Shape With(int64_t first, int64_t second, const std::vector<int64_t>& rest) const {
    Shape shape{first, second};
    for (int64_t size : rest) shape.push_back(size);
    return shape;
  }
  std::vector<Attribute> Attributes() const {
    return {{"group", groups}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}};
  }
  std::vector<int64_t> Output() const {
    std::vector<int64_t> out;
    for (size_t a = 0; a < spatial; ++a)
      out.push_back((input[a] + pads[a] + pads[a + spatial] - (kernel[a] - 1) * dilations[a] - 1) / strides[a] + 1);
    return out;
  }
  // The input offset a tap reads for an output, or -1 in the padding.
  int64_t Source(const std::vector<int64_t>& out, const std::vector<int64_t>& tap) const {
    int64_t offset = 0;
    for (size_t a = 0; a < spatial; ++a) {
      int64_t at = out[a] * strides[a] - pads[a] + tap[a] * dilations[a];
      if (at < 0 || at >= input[a]) return -1;
      offset = offset * input[a] + at;
    }
    return offset;
  }
};

int64_t Product(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}

template <class X, class W>
std::vector<double> PlainConv(const RandomConv& c, const X* x, const W* w, double x_zero = 0) {
  std::vector<int64_t> out = c.Output();
  int64_t pixels = Product(out), inputs = Product(c.input), taps = Product(c.kernel);
  std::vector<double> y;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t m = 0; m < c.groups * c.group_features; ++m) {
      std::vector<double> plane(static_cast<size_t>(pixels));
      int64_t group = m / c.group_features;
      ForEachIndex(out, [&](const std::vector<int64_t>& at, int64_t pixel) {
        ForEachIndex(c.kernel, [&](const std::vector<int64_t>& tap, int64_t t) {
          int64_t source = c.Source(at, tap);
          for (int64_t k = 0; k < c.group_channels && source >= 0; ++k) {
            int64_t channel = (n * c.groups + group) * c.group_channels + k;
            plane[static_cast<size_t>(pixel)] += (static_cast<double>(x[channel * inputs + source]) - x_zero) *
                                                 static_cast<double>(w[(m * c.group_channels + k) * taps + t]);
          }
        });
      });
      y.insert(y.end(), plane.begin(), plane.end());
    }
  return y;
}

// One input channel for each feature and steps of 1, with little padding and with far more of it than image.
TEST(Conv, AddsShiftedPlanes) {
  Random random(22);
  for (int round = 0; round < 80; ++round) {
    RandomConv c(random);
    c.group_channels = 1;
    c.group_features = random.Int(1, 2);
    for (int64_t& stride : c.strides) stride = 1;
    if (round % 5 == 0) {
      c.input.assign(c.spatial, random.Int(1, 2));
      c.kernel.assign(c.spatial, 3);
      c.dilations.assign(c.spatial, 200);
      c.pads.assign(2 * c.spatial, 200);
    }
    Tensor x = random.Floats(c.With(c.batch, c.groups, c.input));
    Tensor w = random.Floats(c.With(c.groups * c.group_features, 1, c.kernel));
    Tensor bias = random.Floats({c.groups * c.group_features});
    Tensor y = RunNode(OneNode("Conv", 3, c.Attributes()), {x, w, bias})[0].tensor();
    ASSERT_EQ(y.shape(), c.With(c.batch, c.groups * c.group_features, c.Output()));
    std::vector<double> expected = PlainConv(c, x.Data<float>(), w.Data<float>());
    const int64_t pixels = Product(c.Output());
    for (int64_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(y.Data<float>()[i],
                  expected[static_cast<size_t>(i)] + static_cast<double>(bias.Data<float>()[i / pixels % bias.size()]),
                  1e-4)
          << "round " << round;
  }
}

TEST(Conv, AgreesWithPlainLoopsOnRandomShapes) {
  Random random(21);
  for (int round = 0; round < 120; ++round) {
    RandomConv c(random);
    Tensor x = random.Floats(c.With(c.batch, c.groups * c.group_channels, c.input));
    Tensor w = random.Floats(c.With(c.groups * c.group_features, c.group_channels, c.kernel));
    Tensor bias = random.Floats({c.groups * c.group_features});
    Node node = OneNode("Conv", 3, c.Attributes());
    Tensor y = RunNode(node, {x, w, bias})[0].tensor();
    ASSERT_EQ(y.shape(), c.With(c.batch, c.groups * c.group_features, c.Output()));
    std::vector<double> expected = PlainConv(c, x.Data<float>(), w.Data<float>());
    int64_t pixels = Product(c.Output());
    for (int64_t i = 0; i < y.size(); ++i) {
      double with_bias = expected[static_cast<size_t>(i)] + double{bias.Data<float>()[i / pixels % bias.size()]};
      ASSERT_NEAR(y.Data<float>()[i], with_bias, 1e-5) << "round " << round << " at " << i;
    }
  }
}

TEST(ConvInteger, AgreesWithPlainLoopsOnRandomShapes) {
  Random random(22);
  for (int round = 0; round < 40; ++round) {
    RandomConv c(random);
    Tensor x = random.Numbers<uint8_t>(c.With(c.batch, c.groups * c.group_channels, c.input));
    Tensor w = random.Numbers<int8_t>(c.With(c.groups * c.group_features, c.group_channels, c.kernel));
    uint8_t zero = static_cast<uint8_t>(random.Int(0, 255));
    Tensor y = RunNode(OneNode("ConvInteger", 3, c.Attributes()), {x, w, Tensor::Scalar(zero)})[0].tensor();
    std::vector<double> expected = PlainConv(c, x.Data<uint8_t>(), w.Data<int8_t>(), zero);
    for (int64_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y.Data<int32_t>()[i], expected[static_cast<size_t>(i)]) << "round " << round;
  }
}

TEST(DeformConv, WithoutOffsetsIsAConvolution) {
  Random random(23);
  for (int round = 0; round < 30; ++round) {
    RandomConv c(random);
    Tensor x = random.Floats(c.With(c.batch, c.groups * c.group_channels, c.input));
    Tensor w = random.Floats(c.With(c.groups * c.group_features, c.group_channels, c.kernel));
    int64_t taps = Product(c.kernel), axes = static_cast<int64_t>(c.spatial);
    Tensor offset = Tensor::Zeros(DType::kFloat, c.With(c.batch, taps * axes, c.Output()));
    Tensor y = RunNode(OneNode("DeformConv", 3, c.Attributes()), {x, w, offset})[0].tensor();
    std::vector<double> expected = PlainConv(c, x.Data<float>(), w.Data<float>());
    for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y.Data<float>()[i], expected[static_cast<size_t>(i)], 1e-5);
    // An offset of one along the last axis reads the neighbour; a mask of zeros takes everything away.
    Tensor mask = Tensor::Zeros(DType::kFloat, c.With(c.batch, taps, c.Output()));
    y = RunNode(OneNode("DeformConv", 5, c.Attributes()), {x, w, offset, Value(), mask})[0].tensor();
    for (float value : y.Span<float>()) ASSERT_EQ(value, 0);
  }
  Tensor x = Tensor::FromVector<float>({1, 2, 3, 4}, {1, 1, 1, 4}), w = Tensor::FromVector<float>({1}, {1, 1, 1, 1});
  Tensor offset = Tensor::FromVector<float>({0, 0, 0, 0, 0.5f, 0.5f, 0.5f, NAN}, {1, 2, 1, 4});
  EXPECT_EQ(Elements<float>(RunNode(OneNode("DeformConv", 3), {x, w, offset})[0]),
            (std::vector<float>{1.5f, 2.5f, 3.5f, 0}));
}

TEST(ConvTranspose, IsTheTransposedConvolution) {
  Random random(24);
  for (int round = 0; round < 60; ++round) {
    RandomConv c(random);
    // Y = conv(X) sends inputs to outputs; the transpose sends outputs back along the same taps.
    std::vector<int64_t> out = c.Output(), output_shape = c.input;
    Tensor y = random.Floats(c.With(c.batch, c.groups * c.group_features, out));
    Tensor w = random.Floats(c.With(c.groups * c.group_features, c.group_channels, c.kernel));
    std::vector<int64_t> output_padding;
    for (size_t a = 0; a < c.spatial; ++a) {
      int64_t smallest =
          (out[a] - 1) * c.strides[a] + (c.kernel[a] - 1) * c.dilations[a] + 1 - c.pads[a] - c.pads[a + c.spatial];
      output_padding.push_back(c.input[a] - smallest);
    }
    std::vector<Attribute> attributes = c.Attributes();
    attributes.emplace_back("output_padding", output_padding);
    Tensor back = RunNode(OneNode("ConvTranspose", 2, attributes), {y, w})[0].tensor();
    ASSERT_EQ(back.shape(), c.With(c.batch, c.groups * c.group_channels, c.input));
    int64_t pixels = Product(out), inputs = Product(c.input), taps = Product(c.kernel);
    std::vector<double> expected(static_cast<size_t>(back.size()));
    for (int64_t n = 0; n < c.batch; ++n)
      for (int64_t m = 0; m < c.groups * c.group_features; ++m)
        for (int64_t k = 0; k < c.group_channels; ++k)
          ForEachIndex(out, [&](const std::vector<int64_t>& at, int64_t pixel) {
            ForEachIndex(c.kernel, [&](const std::vector<int64_t>& tap, int64_t t) {
              int64_t source = c.Source(at, tap);
              int64_t channel = n * c.groups * c.group_channels + m / c.group_features * c.group_channels + k;
              if (source >= 0)
                expected[static_cast<size_t>(channel * inputs + source)] +=
                    double{y.Data<float>()[(n * c.groups * c.group_features + m) * pixels + pixel]} *
                    double{w.Data<float>()[(m * c.group_channels + k) * taps + t]};
            });
          });
    for (int64_t i = 0; i < back.size(); ++i)
      ASSERT_NEAR(back.Data<float>()[i], expected[static_cast<size_t>(i)], 1e-5) << "round " << round;
  }
}

std::string InferredConv(std::vector<Attribute> attributes, SymbolicShape x, SymbolicShape w, const char* op = "Conv") {
  ValueFacts image{.type = Type::Tensor(DType::kFloat, std::move(x))};
  ValueFacts weights{.type = Type::Tensor(DType::kFloat, std::move(w))};
  return ToText(InferNode(OneNode(op, 2, std::move(attributes)), {image, weights})[0].type);
}

TEST(Conv, InferenceKeepsNamesWhereSizesStay) {
  std::vector<int64_t> pads{1, 1, 1, 1}, strides{2, 2};
  SymbolicShape x{Dim::Named("n"), 3, Dim::Named("h"), 32};
  EXPECT_EQ(InferredConv({{"pads", pads}}, x, {8, 3, 3, 3}), "float[n, 8, h, 32]");
  EXPECT_EQ(InferredConv({{"pads", pads}, {"strides", strides}}, x, {8, 3, 3, 3}), "float[n, 8, ?, 16]");
  EXPECT_EQ(InferredConv({{"auto_pad", std::string("SAME_UPPER")}}, x, {8, 3, 5, 5}), "float[n, 8, h, 32]");
  EXPECT_EQ(InferredConv({{"pads", pads}}, x, {8, 3, Dim(), 3}), "float[n, 8, ?, 32]");
  EXPECT_EQ(InferredConv({{"strides", strides}}, x, {3, 8, 2, 2}, "ConvTranspose"), "float[n, 8, ?, 64]");
  EXPECT_EQ(InferredConv({{"output_shape", std::vector<int64_t>{7, 9}}}, x, {3, 8, 2, 2}, "ConvTranspose"),
            "float[n, 8, 7, 9]");
}

TEST(Conv, RefusesAttributesThatMakeNoSense) {
  Tensor x = Tensor::Zeros(DType::kFloat, {1, 4, 5, 5}), w = Tensor::Zeros(DType::kFloat, {6, 2, 3, 3});
  auto error = [&](std::vector<Attribute> attributes) {
    attributes.emplace_back("group", int64_t{2});
    return ErrorOf([&] { RunNode(OneNode("Conv", 2, attributes), {x, w}); });
  };
  using Ints = std::vector<int64_t>;
  EXPECT_EQ(error({}), "no error");
  EXPECT_THAT(error({{"strides", Ints{0, 1}}}), HasSubstr("strides has the value 0"));
  EXPECT_THAT(error({{"strides", Ints{1}}}), HasSubstr("strides has 1 values, 2 are needed"));
  EXPECT_THAT(error({{"dilations", Ints{INT64_MAX, 1}}}), HasSubstr("dilations has the value"));
  EXPECT_THAT(error({{"pads", Ints{-1, 0, 0, 0}}}), HasSubstr("pads has the value -1"));
  EXPECT_THAT(error({{"kernel_shape", Ints{5, 3}}}), HasSubstr("kernel_shape says 5"));
  EXPECT_THAT(error({{"auto_pad", std::string("LEFT")}}), HasSubstr("auto_pad"));
  EXPECT_THAT(error({{"dilations", Ints{100, 1}}}), HasSubstr("does not fit"));
  EXPECT_THAT(ErrorOf([&] {
                RunNode(OneNode("Conv", 2, {{"group", int64_t{3}}}), {x, w});
              }),
              HasSubstr("in 3 groups take 2 each"));
  EXPECT_THAT(ErrorOf([&] { RunNode(OneNode("Conv", 2, {{"group", int64_t{0}}}), {x, w}); }), HasSubstr("0 groups"));
  EXPECT_THAT(ErrorOf([&] { RunNode(OneNode("Conv", 3, {{"group", int64_t{2}}}), {x, w, x}); }), HasSubstr("bias"));
}

}  // namespace
}  // namespace ferry

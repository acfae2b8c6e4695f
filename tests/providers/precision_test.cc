// Products with weights kept as bfloat16, as a session's options ask for them.
#include "engine/precision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/session.h"
#include "tests/support/graphs.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;
using ::ferry::testing::Random;

// Such as bfloat16 holds exactly.
Tensor WholeNumbers(Random& random, Shape shape) {
  Tensor tensor(DType::kFloat, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.MutableData<float>()[i] = static_cast<float>(random.Int(-100, 100));
  return tensor;
}

struct Given {
  Model model;
  std::vector<NamedValue> inputs;
};

std::vector<Value> RunAs(const Given& given, Precision precision, int threads = 1, bool exact = false) {
  return Session::FromModel(given.model, {.threads = threads, .exact = exact, .precision = precision})
      ->Run(given.inputs);
}

Given Product(const Tensor& x, const Tensor& w) {
  return {MakeModel({MakeInfo("x", DType::kFloat, ToSymbolic(x.shape()))}, {MakeNode("MatMul", {"x", "w"}, {"y"})},
                    {MakeInfo("y")}, {MakeStored("w", w)}),
          {{"x", x}}};
}

TEST(Precision, HasNames) {
  EXPECT_EQ(PrecisionNamed("float32"), Precision::kFloat32);
  EXPECT_EQ(PrecisionNamed("bf16"), Precision::kBf16);
  try {
    PrecisionNamed("fp8");
    FAIL() << "fp8 is no precision";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("'fp8'; there are float32, bf16, tf32 and fp16"), std::string::npos)
        << error.message();
  }
}

// Rounding both operands to 8 bits changes a product by at most 2^-8 of itself, and a sum by as much of its terms.
TEST(Precision, ErrorOfProductsIsWithinWhatRoundingAllows) {
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    int64_t rows = round % 2 ? 1 : random.Int(1, 60), depth = random.Int(8, 700), columns = random.Int(1, 200);
    Tensor x = random.Floats({rows, depth}), w = random.Floats({depth, columns});
    Given given = Product(x, w);
    Tensor full = RunAs(given, Precision::kFloat32)[0].tensor(), bf16 = RunAs(given, Precision::kBf16)[0].tensor();
    EXPECT_FALSE(Identical(full, bf16)) << "nothing was rounded";
    EXPECT_TRUE(Identical(bf16, RunAs(given, Precision::kBf16, 3)[0].tensor())) << "threads change the result";
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t n = 0; n < columns; ++n) {
        double terms = 0;
        for (int64_t k = 0; k < depth; ++k)
          terms += std::abs(static_cast<double>(x.Data<float>()[i * depth + k]) *
                            static_cast<double>(w.Data<float>()[k * columns + n]));
        ASSERT_NEAR(bf16.Data<float>()[i * columns + n], full.Data<float>()[i * columns + n], terms / 256 * 1.01 + 1e-6)
            << rows << " × " << depth << " × " << columns;
      }
  }
}

// Numbers that bfloat16 has, with sums that float has: any order, any algorithm that multiplies them gives one answer.
TEST(Precision, ConvolutionsOfWholeNumbersAreExact) {
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    int64_t groups = random.Int(0, 3) == 0 ? random.Int(2, 3) : 1, kernel = random.Int(0, 2) * 2 + 1;
    int64_t channels = groups * random.Int(groups > 1 ? 33 : 9, 45), features = groups * random.Int(1, 40);
    int64_t size = kernel + random.Int(0, 12), stride = random.Int(1, 2), pad = random.Int(0, kernel / 2);
    Shape shape = {random.Int(1, 2), channels, size, size};
    Tensor x = WholeNumbers(random, shape), w = WholeNumbers(random, {features, channels / groups, kernel, kernel});
    std::vector<Node> nodes{MakeNode("Conv", {"x", "w", "b"}, {"c"},
                                     {{"group", groups},
                                      {"strides", std::vector<int64_t>{stride, stride}},
                                      {"pads", std::vector<int64_t>{pad, pad, pad, pad}}}),
                            MakeNode("Relu", {"c"}, {"y"})};
    Given given{MakeModel({MakeInfo("x", DType::kFloat, ToSymbolic(shape))}, nodes, {MakeInfo("y")},
                          {MakeStored("w", w), MakeStored("b", WholeNumbers(random, {features}))}),
                {{"x", x}}};
    std::string text = Cat(shape, " kernel ", kernel, " stride ", stride, " groups ", groups, " features ", features);
    Tensor full = RunAs(given, Precision::kFloat32, 1, true)[0].tensor();
    EXPECT_TRUE(Identical(full, RunAs(given, Precision::kBf16, 2, true)[0].tensor())) << text;
  }
}

// A small network: 1×1 and strided convolutions, then products.
TEST(Precision, NetworkStaysWithinOnePercent) {
  Random random(3);
  Shape shape = {1, 24, 14, 14};
  std::vector<int64_t> pads{1, 1, 1, 1}, strides{2, 2};
  std::vector<Node> nodes{
      MakeNode("Conv", {"x", "w1"}, {"a"}),
      MakeNode("Relu", {"a"}, {"b"}),
      MakeNode("Conv", {"b", "w2"}, {"c"}, {{"pads", pads}, {"strides", strides}}),
      MakeNode("Relu", {"c"}, {"d"}),
      MakeNode("GlobalAveragePool", {"d"}, {"e"}),
      MakeNode("Flatten", {"e"}, {"f"}),
      MakeNode("Gemm", {"f", "w3"}, {"y"}, {{"transB", int64_t{1}}}),
  };
  Given given{MakeModel({MakeInfo("x", DType::kFloat, ToSymbolic(shape))}, nodes, {MakeInfo("y")},
                        {MakeStored("w1", random.Floats({40, 24, 1, 1})),
                         MakeStored("w2", random.Floats({32, 40, 3, 3})), MakeStored("w3", random.Floats({10, 32}))}),
              {{"x", random.Floats(shape)}}};
  Tensor full = RunAs(given, Precision::kFloat32)[0].tensor(), bf16 = RunAs(given, Precision::kBf16)[0].tensor();
  EXPECT_FALSE(Identical(full, bf16)) << "nothing was rounded";
  float largest = 0, off = 0;
  for (int64_t i = 0; i < full.size(); ++i) {
    largest = std::max(largest, std::abs(full.Data<float>()[i]));
    off = std::max(off, std::abs(full.Data<float>()[i] - bf16.Data<float>()[i]));
  }
  EXPECT_LT(off, 0.01f * largest);
}

}  // namespace
}  // namespace ferry

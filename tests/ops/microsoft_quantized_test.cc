// Weights of few bits: what they are, and numbers that do not fit.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using testing::OneNode;
using testing::RunNode;

Tensor Floats(std::vector<float> values, Shape shape) { return Tensor::FromVector(values, std::move(shape)); }
Tensor Bytes(size_t count, uint8_t value, Shape shape) {
  return Tensor::FromVector(std::vector<uint8_t>(count, value), std::move(shape));
}

struct NBits {
  int64_t n = 2, k = 16, bits = 4, block = 16;
  Value a = Floats(std::vector<float>(16, 1), {1, 16});
  Value b = Bytes(16, 0x98, {2, 1, 8});
  Value scales = Floats({0.5f, 2}, {2, 1});
  Value zeros, groups, bias;

  std::vector<float> Run() const {
    Node node = OneNode("MatMulNBits", 6, {{"N", n}, {"K", k}, {"bits", bits}, {"block_size", block}}, "com.microsoft");
    return Elements<float>(RunNode(node, {a, b, scales, zeros, groups, bias})[0]);
  }
  std::string Error() const {
    return ErrorOf([&] { Run(); });
  }
};

TEST(MatMulNBits, LowBitsComeFirst) {
  // 8 and 9 in turns: without zero points 8 is 0.
  EXPECT_EQ(NBits{}.Run(), (std::vector<float>{4, 16}));
  NBits with_zeros;
  with_zeros.zeros = Tensor::FromVector(std::vector<uint8_t>{0x07, 0x09});
  EXPECT_EQ(with_zeros.Run(), (std::vector<float>{12, -16}));
}

TEST(MatMulNBits, RefusesWhatDoesNotFit) {
  EXPECT_NE(NBits{.block = 24}.Error().find("power of two"), std::string::npos);
  EXPECT_NE(NBits{.block = 8}.Error().find("power of two"), std::string::npos);
  EXPECT_NE(NBits{.block = -16}.Error().find("power of two"), std::string::npos);
  EXPECT_NE(NBits{.bits = 3}.Error().find("2, 4 or 8"), std::string::npos);
  EXPECT_NE(NBits{.n = 0}.Error().find("'N'"), std::string::npos);
  EXPECT_NE(NBits{.n = std::numeric_limits<int64_t>::max()}.Error().find("'N'"), std::string::npos);
  EXPECT_NE(NBits{.n = 3}.Error().find("B must have"), std::string::npos);
  EXPECT_NE(NBits{.k = 32}.Error().find("columns"), std::string::npos);
  NBits one;
  one.scales = Floats({1}, {1});
  EXPECT_NE(one.Error().find("scales"), std::string::npos);
  one = {};
  one.zeros = Bytes(3, 0, {3});
  EXPECT_NE(one.Error().find("zero_points"), std::string::npos);
  one = {};
  one.groups = Tensor::FromVector(std::vector<int32_t>(16, 1));
  EXPECT_NE(one.Error().find("g_idx"), std::string::npos);
  one.groups = Tensor::FromVector(std::vector<int32_t>(16, -1));
  EXPECT_NE(one.Error().find("g_idx"), std::string::npos);
  one = {};
  one.bias = Floats({1}, {1});
  EXPECT_NE(one.Error().find("bias"), std::string::npos);
}

TEST(MatMulBnb4, RefusesShortInputs) {
  auto error = [](int64_t n, int64_t block, size_t bytes, size_t largest) {
    Node node =
        OneNode("MatMulBnb4", 3, {{"N", n}, {"K", int64_t{16}}, {"block_size", block}, {"quant_type", int64_t{1}}},
                "com.microsoft");
    return ErrorOf([&] {
      RunNode(node, {Floats(std::vector<float>(16, 1), {1, 16}), Bytes(bytes, 0, {static_cast<int64_t>(bytes)}),
                     Floats(std::vector<float>(largest, 1), {static_cast<int64_t>(largest)})});
    });
  };
  EXPECT_EQ(error(2, 16, 16, 2), "no error");
  EXPECT_NE(error(2, 16, 15, 2).find("B must have"), std::string::npos);
  EXPECT_NE(error(2, 16, 16, 1).find("absmax"), std::string::npos);
  EXPECT_NE(error(int64_t{1} << 40, 16, 16, 2).find("N and K"), std::string::npos);
  EXPECT_NE(error(2, 0, 16, 2).find("power of two"), std::string::npos);
}

TEST(MatMulFpQ4, ReadsBlocksWithAZeroPoint) {
  // One column of 32 numbers: scale 0.5, zero point 2; the first half is 3, the second 4.
  std::vector<uint8_t> blob{0, 0, 0, 0x3f, 2};
  blob.insert(blob.end(), 16, 0x43);
  Value a = Floats(std::vector<float>(32, 1), {1, 32}), sizes = Tensor::FromVector(std::vector<int64_t>{32, 1});
  auto run = [&](std::vector<uint8_t> bytes, int64_t kind) {
    Node node = OneNode("MatMulFpQ4", 3, {{"blk_quant_type", kind}}, "com.microsoft");
    return Elements<float>(RunNode(node, {a, Tensor::FromVector(bytes), sizes})[0]);
  };
  EXPECT_EQ(run(blob, 1), (std::vector<float>{24}));
  EXPECT_NE(ErrorOf([&] { run(blob, 0); }).find("bytes"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { run(blob, 3); }).find("blk_quant_type"), std::string::npos);
}

TEST(SparseToDenseMatMul, TakesBothKindsOfIndices) {
  Node node = OneNode("SparseToDenseMatMul", 2, {{"alpha", 2.0f}}, "com.microsoft");
  auto run = [&](std::vector<int64_t> places, Shape shape) {
    SparseTensor a{Shape{2, 2}, Floats({3}, {1}), Tensor::FromVector(places, std::move(shape))};
    return Elements<float>(RunNode(node, {Value(a), Floats({1, 2, 3, 4}, {2, 2})})[0]);
  };
  EXPECT_EQ(run({1}, {1}), (std::vector<float>{18, 24, 0, 0}));
  EXPECT_EQ(run({0, 1}, {1, 2}), (std::vector<float>{18, 24, 0, 0}));
  EXPECT_NE(ErrorOf([&] { run({4}, {1}); }).find("outside"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { run({0, -1}, {1, 2}); }).find("outside"), std::string::npos);
}

TEST(GatherBlockQuantized, RefusesWhatDoesNotFit) {
  auto error = [](int64_t index, Shape scales, std::vector<Attribute> attributes) {
    Node node = OneNode("GatherBlockQuantized", 3, std::move(attributes), "com.microsoft");
    auto count = static_cast<size_t>(scales.ElementCount());
    return ErrorOf([&] {
      RunNode(node, {Bytes(16, 0x98, {2, 8}), Tensor::FromVector(std::vector<int64_t>{index}),
                     Floats(std::vector<float>(count, 1), scales)});
    });
  };
  std::vector<Attribute> right{{"block_size", int64_t{16}}};
  EXPECT_EQ(error(1, {2, 1}, right), "no error");
  EXPECT_EQ(error(-2, {2, 1}, right), "no error");
  EXPECT_NE(error(2, {2, 1}, right).find("index 2"), std::string::npos);
  EXPECT_NE(error(-3, {2, 1}, right).find("index -3"), std::string::npos);
  EXPECT_NE(error(0, {2, 2}, right).find("scales"), std::string::npos);
  EXPECT_NE(error(0, {2, 1}, {{"block_size", int64_t{17}}}).find("power of two"), std::string::npos);
  EXPECT_NE(error(0, {2, 1}, {{"block_size", int64_t{16}}, {"bits", int64_t{5}}}).find("2, 4 or 8"), std::string::npos);
  EXPECT_NE(error(0, {2, 1}, {{"block_size", int64_t{16}}, {"gather_axis", int64_t{7}}}).find("axis"),
            std::string::npos);
}

TEST(QMoE, RefusesWhatDoesNotFit) {
  auto error = [](int64_t k, int64_t block, Shape scales) {
    Node node = OneNode("QMoE", 7, {{"k", k}, {"block_size", block}}, "com.microsoft");
    auto count = static_cast<size_t>(scales.ElementCount());
    Value weights = Bytes(4 * 16 * 8, 0x98, {4, 16, 8}), factors = Floats(std::vector<float>(count, 1), scales);
    return ErrorOf([&] {
      RunNode(node, {Floats(std::vector<float>(16, 1), {1, 16}),
                     Floats({1, 2, 3, 4}, {1, 4}),
                     weights,
                     factors,
                     {},
                     weights,
                     factors});
    });
  };
  EXPECT_EQ(error(2, 0, {4, 16}), "no error");
  EXPECT_EQ(error(2, 16, {4, 16, 1}), "no error");
  EXPECT_NE(error(5, 0, {4, 16}).find("k must be"), std::string::npos);
  EXPECT_NE(error(0, 0, {4, 16}).find("k must be"), std::string::npos);
  EXPECT_NE(error(1, 0, {4, 15}).find("scales"), std::string::npos);
  EXPECT_NE(error(1, 20, {4, 16}).find("power of two"), std::string::npos);
}

TEST(DynamicQuantizeMatMul, IsAProductOfBytes) {
  Node node = OneNode("DynamicQuantizeMatMul", 5, {}, "com.microsoft");
  std::vector<Value> y = RunNode(node, {Floats({0, 255}, {1, 2}), Tensor::FromVector(std::vector<int8_t>{1, 2}, {2, 1}),
                                        Tensor::Scalar(0.5f), Value(), Floats({1}, {1})});
  EXPECT_EQ(Elements<float>(y[0]), (std::vector<float>{256}));
}

}  // namespace
}  // namespace ferry

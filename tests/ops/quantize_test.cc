#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/nodes.h"

namespace ferry::testing {
namespace {

Value Quantize(const Tensor& x, const Tensor& scale, const Value& zero_point = {},
               std::vector<Attribute> attributes = {}) {
  return RunNode(OneNode("QuantizeLinear", 3, std::move(attributes)), {x, scale, zero_point})[0];
}

TEST(QuantizeLinear, RoundsToEvenSaturatesAndDefinesNaN) {
  Tensor x = Tensor::FromVector<float>({0.5f, 1.5f, 2.5f, -1, 1e10f, NAN, INFINITY, -INFINITY});
  EXPECT_EQ(Elements<uint8_t>(Quantize(x, Tensor::Scalar<float>(1))),
            (std::vector<uint8_t>{0, 2, 2, 0, 255, 0, 255, 0}));
  EXPECT_EQ(Elements<int8_t>(Quantize(x, Tensor::Scalar<float>(1), Tensor::Scalar<int8_t>(-128))),
            (std::vector<int8_t>{-128, -126, -126, -128, 127, -128, 127, -128}));
}

TEST(QuantizeLinear, UnevenBlocksAlongAnyAxis) {
  Tensor x = Tensor::FromVector<float>({2, 4, 6, 8, 10, 2, 4, 6, 8, 10}, {2, 5});
  Tensor scale = Tensor::FromVector<float>({1, 2, 1, 2}, {2, 2});
  EXPECT_EQ(Elements<uint8_t>(Quantize(x, scale, {}, {{"axis", int64_t{1}}, {"block_size", int64_t{3}}})),
            (std::vector<uint8_t>{2, 4, 6, 4, 5, 2, 4, 6, 4, 5}));
  Tensor rows = Tensor::FromVector<float>({1, 2, 1, 2, 1}, {1, 5});
  EXPECT_EQ(Elements<uint8_t>(Quantize(x, rows, {}, {{"axis", int64_t{0}}, {"block_size", int64_t{2}}})),
            (std::vector<uint8_t>{2, 2, 6, 4, 10, 2, 2, 6, 4, 10}));
}

TEST(QuantizeLinear, RefusesShapesThatDoNotFit) {
  Tensor x(DType::kFloat, {2, 6});
  EXPECT_THROW(Quantize(x, Tensor(DType::kFloat, {3})), Error);
  EXPECT_THROW(Quantize(x, Tensor(DType::kFloat, {2, 2}), {}, {{"block_size", int64_t{2}}}), Error);
  EXPECT_THROW(Quantize(x, Tensor(DType::kFloat, {6}), Tensor(DType::kUInt8, {2})), Error);
  EXPECT_THROW(Quantize(x, Tensor(DType::kFloat, {6}), {}, {{"axis", int64_t{2}}}), Error);
  EXPECT_THROW(Quantize(x, Tensor::Scalar<float>(1), {}, {{"output_dtype", int64_t{7}}}), Error);
  EXPECT_THROW(Quantize(x, Tensor::Scalar<float>(1), Tensor::Scalar<uint8_t>(0), {{"output_dtype", int64_t{3}}}),
               Error);
}

TEST(QuantizeLinear, PrecisionRoundsTheQuotient) {
  // 2049 / 1 is halfway between two float16 values.
  Tensor x = Tensor::FromVector<float>({2049});
  auto quantize = [&](DType precision) {
    return Elements<int16_t>(Quantize(x, Tensor::Scalar<float>(1), Tensor::Scalar<int16_t>(0),
                                      {{"precision", static_cast<int64_t>(precision)}}))[0];
  };
  EXPECT_EQ(quantize(DType::kFloat), 2049);
  EXPECT_EQ(quantize(DType::kFloat16), 2048);
}

TEST(QuantizeLinear, SmallTypesRoundTrip) {
  Tensor x = Tensor::FromVector<float>({-4, -1.5f, 0, 1, 3.5f});
  for (DType type :
       {DType::kInt4, DType::kInt2, DType::kFloat8E4M3FN, DType::kFloat4E2M1, DType::kFloat6E2M3, DType::kFloat6E3M2}) {
    Value y = Quantize(x, Tensor::Scalar<float>(1), {}, {{"output_dtype", static_cast<int64_t>(type)}});
    ASSERT_EQ(y.tensor().dtype(), type);
    Value back = RunNode(OneNode("DequantizeLinear", 2), {y, Tensor::Scalar<float>(2)})[0];
    std::vector<float> values = Elements<float>(back);
    EXPECT_EQ(values[2], 0) << ToText(type);
    EXPECT_EQ(values[3], 2) << ToText(type);
  }
}

TEST(DequantizeLinear, WideIntegersAndOtherResultTypes) {
  Tensor x = Tensor::FromVector<int32_t>({INT32_MIN, 7}), zero = Tensor::Scalar<int32_t>(INT32_MAX);
  std::vector<float> y =
      Elements<float>(RunNode(OneNode("DequantizeLinear", 3), {x, Tensor::Scalar<float>(1), zero})[0]);
  EXPECT_EQ(y[0], -4294967296.0f);
  Node node = OneNode("DequantizeLinear", 2, {{"output_dtype", int64_t{10}}});
  EXPECT_EQ(RunNode(node, {x, Tensor::Scalar<float>(1)})[0].tensor().dtype(), DType::kFloat16);
  EXPECT_THROW(RunNode(OneNode("DequantizeLinear", 3), {x, Tensor::Scalar<float>(1), Tensor::Scalar<int8_t>(0)}),
               Error);
}

TEST(DynamicQuantizeLinear, AnythingGivesSomething) {
  for (float value : {0.0f, INFINITY, NAN}) {
    std::vector<Value> out =
        RunNode(OneNode("DynamicQuantizeLinear", 1, {}, "", 3), {Tensor::FromVector<float>({value, -value})});
    EXPECT_EQ(out[0].tensor().dtype(), DType::kUInt8);
    EXPECT_EQ(out[2].tensor().rank(), 0u);
  }
}

}  // namespace
}  // namespace ferry::testing

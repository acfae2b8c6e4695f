#include <gtest/gtest.h>

#include <cmath>

#include "ops/support/cast_tensor.h"
#include "ops/support/number_text.h"
#include "tests/support/nodes.h"

namespace ferry::testing {
namespace {

Value Cast(const Tensor& x, DType to, std::vector<Attribute> attributes = {}) {
  attributes.emplace_back("to", static_cast<int64_t>(to));
  return RunNode(OneNode("Cast", 1, std::move(attributes)), {x})[0];
}

template <class T>
std::vector<T> FromFloats(const std::vector<float>& values, DType to) {
  return Elements<T>(Cast(Tensor::FromVector(values), to));
}

TEST(Cast, FloatsOutsideTheRangeAreDefined) {
  EXPECT_EQ(FromFloats<uint8_t>({-1, 300, 2.9f}, DType::kUInt8), (std::vector<uint8_t>{255, 44, 2}));
  EXPECT_EQ(FromFloats<int32_t>({3e9f, -3e9f, NAN, -2.9f}, DType::kInt32),
            (std::vector<int32_t>{INT32_MIN, INT32_MIN, INT32_MIN, -2}));
  EXPECT_EQ(FromFloats<int64_t>({1e30f, INFINITY}, DType::kInt64), (std::vector<int64_t>{INT64_MIN, INT64_MIN}));
  EXPECT_EQ(FromFloats<uint64_t>({9223372036854775808.0f}, DType::kUInt64), (std::vector<uint64_t>{uint64_t{1} << 63}));
  EXPECT_EQ(FromFloats<uint32_t>({4294967040.0f, -1}, DType::kUInt32),
            (std::vector<uint32_t>{4294967040u, 4294967295u}));
  EXPECT_EQ(FromFloats<bool>({0, -0.0f, 0.1f, NAN}, DType::kBool), (std::vector<bool>{false, false, true, true}));
}

TEST(Cast, IntegersKeepTheirLowBits) {
  Tensor x = Tensor::FromVector<int16_t>({200, -1});
  EXPECT_EQ(Elements<int8_t>(Cast(x, DType::kInt8)), (std::vector<int8_t>{-56, -1}));
  Tensor four = Cast(Tensor::FromVector<int32_t>({-9, 8, 15, 16}), DType::kInt4).tensor();
  EXPECT_EQ(ToInt64Vector(four.Unpacked()), (std::vector<int64_t>{7, -8, -1, 0}));
  Tensor two = Cast(four, DType::kUInt2).tensor();
  EXPECT_EQ(ToInt64Vector(two.Unpacked()), (std::vector<int64_t>{3, 0, 3, 0}));
}

TEST(Cast, DoublesAreRoundedOnce) {
  // Halfway between two float16 values plus a trace that float would lose: rounding twice would go down.
  double value = 1.0 + 0x1p-11 + 0x1p-40;
  Tensor half = Cast(Tensor::FromVector<double>({value}), DType::kFloat16).tensor();
  EXPECT_EQ(ToFloat(*half.Data<Float16>()), 1.0f + 0x1p-10f);
}

TEST(Cast, SixBitFloats) {
  Tensor six = Cast(Tensor::FromVector<float>({0.1f, -7.5f, 100, 1.3f, -0.0f}), DType::kFloat6E2M3).tensor();
  EXPECT_EQ(six.bytes(), 4u);
  EXPECT_EQ(Elements<float>(Cast(six, DType::kFloat)), (std::vector<float>{0.125f, -7.5f, 7.5f, 1.25f, -0.0f}));
}

TEST(Cast, NumbersToTextAsNumpyWritesThem) {
  Tensor floats = Tensor::FromVector<float>({0.1f, 100, 1e-5f, 1e20f, -0.0f, NAN, -INFINITY, 314.15926f, 16777216});
  EXPECT_EQ(
      Elements<std::string>(Cast(floats, DType::kString)),
      (std::vector<std::string>{"0.1", "100.0", "1e-05", "1e+20", "-0.0", "nan", "-inf", "314.15927", "16777216.0"}));
  Tensor doubles = Tensor::FromVector<double>({0.1, 1.0 / 3, 1e16, 123456789012345680.0});
  EXPECT_EQ(Elements<std::string>(Cast(doubles, DType::kString)),
            (std::vector<std::string>{"0.1", "0.3333333333333333", "1e+16", "1.2345678901234568e+17"}));
  Tensor half = Cast(Tensor::FromVector<float>({0.1f}), DType::kFloat16).tensor();
  EXPECT_EQ(Elements<std::string>(Cast(half, DType::kString)), (std::vector<std::string>{"0.1"}));
  EXPECT_EQ(Elements<std::string>(Cast(Tensor::FromVector<uint64_t>({UINT64_MAX}), DType::kString)),
            (std::vector<std::string>{"18446744073709551615"}));
  EXPECT_EQ(Elements<std::string>(Cast(Tensor::FromVector<bool>({true, false}), DType::kString)),
            (std::vector<std::string>{"True", "False"}));
}

TEST(Cast, TextToNumbers) {
  Tensor texts = Tensor::FromVector<std::string>({"3.14", "1e-5", "+INF", "-inf", " 1000 ", "1e400", "-1e-400"});
  std::vector<double> values = Elements<double>(Cast(texts, DType::kDouble));
  EXPECT_EQ(values, (std::vector<double>{3.14, 1e-5, INFINITY, -INFINITY, 1000, INFINITY, -0.0}));
  EXPECT_TRUE(std::isnan(Elements<float>(Cast(Tensor::FromVector<std::string>({"NaN"}), DType::kFloat))[0]));
  EXPECT_EQ(Elements<int64_t>(Cast(Tensor::FromVector<std::string>({"9223372036854775807", "100.5"}), DType::kInt64)),
            (std::vector<int64_t>{INT64_MAX, 100}));
  for (const char* text : {"Hello", "", "1e", "0x10", "1 2", "--1", "."})
    EXPECT_NE(ErrorOf([&] { Cast(Tensor::FromVector<std::string>({text}), DType::kFloat); }).find("not a number"),
              std::string::npos)
        << text;
}

TEST(Cast, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(RunNode(OneNode("Cast", 1), {Tensor::Scalar<float>(1)}), Error);
  EXPECT_THROW(RunNode(OneNode("Cast", 1, {{"to", int64_t{99}}}), {Tensor::Scalar<float>(1)}), Error);
  EXPECT_THROW(Cast(Tensor::Scalar<float>(1), DType::kComplex64), Error);
  EXPECT_THROW(Cast(Tensor::Scalar<float>(1), DType::kFloat8E8M0, {{"round_mode", std::string("sideways")}}), Error);
}

TEST(BitCast, KeepsTheBitsOrRefuses) {
  auto cast = [](const Tensor& x, DType to) {
    return RunNode(OneNode("BitCast", 1, {{"to", static_cast<int64_t>(to)}}), {x})[0];
  };
  EXPECT_EQ(Elements<int32_t>(cast(Tensor::Scalar<float>(1), DType::kInt32)), (std::vector<int32_t>{0x3f800000}));
  EXPECT_THROW(cast(Tensor::Scalar<float>(1), DType::kInt64), Error);
  EXPECT_THROW(cast(Tensor::FromVector<std::string>({"a"}), DType::kInt64), Error);
}

}  // namespace
}  // namespace ferry::testing

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "tensor/small_float.h"
#include "tests/support/nodes.h"

namespace ferry::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

template <class T>
Value Vector(const std::vector<T>& values) {
  return Tensor::FromVector(values);
}

template <class T>
std::vector<T> RunBinary(const std::string& op, const std::vector<T>& a, const std::vector<T>& b,
                         std::vector<Attribute> attributes = {}) {
  return Elements<T>(RunNode(OneNode(op, 2, std::move(attributes)), {Vector(a), Vector(b)})[0]);
}

Value Halves(const std::vector<float>& values) {
  Tensor tensor(DType::kFloat16, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.MutableData<Float16>()[i] = ToFloat16(values[i]);
  return tensor;
}

std::vector<float> FromHalves(const Value& value) {
  std::vector<float> out;
  for (Float16 half : value.tensor().Span<Float16>()) out.push_back(ToFloat(half));
  return out;
}

TEST(Elementwise, IntegersWrap) {
  EXPECT_EQ(RunBinary<int8_t>("Add", {127}, {1}), (std::vector<int8_t>{-128}));
  EXPECT_EQ(RunBinary<uint16_t>("Mul", {65535}, {65535}), (std::vector<uint16_t>{1}));
  EXPECT_EQ(RunBinary<int64_t>("Sub", {INT64_MIN}, {1}), (std::vector<int64_t>{INT64_MAX}));
}

TEST(Elementwise, IntegerDivisionCutsTowardZeroAndNeverTraps) {
  EXPECT_EQ(RunBinary<int32_t>("Div", {-7, 7, INT32_MIN}, {2, -2, -1}), (std::vector<int32_t>{-3, -3, INT32_MIN}));
  EXPECT_EQ(RunBinary<int8_t>("Div", {-128}, {-1}), (std::vector<int8_t>{-128}));
  EXPECT_NE(ErrorOf([] { RunBinary<int32_t>("Div", {1}, {0}); }).find("divided by zero"), std::string::npos);
  EXPECT_NE(ErrorOf([] { RunBinary<uint8_t>("Mod", {1}, {0}); }).find("divided by zero"), std::string::npos);
}

TEST(Elementwise, ModFollowsTheDivisorAndFmodTheDividend) {
  EXPECT_EQ(RunBinary<int32_t>("Mod", {-4, 7, INT32_MIN}, {3, -3, -1}), (std::vector<int32_t>{2, -2, 0}));
  EXPECT_EQ(RunBinary<int64_t>("Mod", {-4, 7}, {3, -3}, {{"fmod", int64_t{1}}}), (std::vector<int64_t>{-1, 1}));
  auto floats = RunBinary<float>("Mod", {-1, 5, -1, 1}, {3, -3, kInf, 0});
  EXPECT_EQ(floats[0], 2);
  EXPECT_EQ(floats[1], -1);
  EXPECT_EQ(floats[2], kInf);
  EXPECT_TRUE(std::isnan(floats[3]));
  EXPECT_THROW(RunBinary<float>("Mod", {1}, {1}, {{"fmod", int64_t{2}}}), Error);
}

TEST(Elementwise, BroadcastsEveryWay) {
  Tensor column = Tensor::FromVector<float>({1, 2}, {2, 1}), row = Tensor::FromVector<float>({10, 20, 30}, {3});
  Value out = RunNode(OneNode("Sub", 2), {column, row})[0];
  EXPECT_EQ(out.tensor().shape(), (Shape{2, 3}));
  EXPECT_EQ(Elements<float>(out), (std::vector<float>{-9, -19, -29, -8, -18, -28}));
  Value empty = RunNode(OneNode("Add", 2), {Tensor(DType::kFloat, {0, 3}), row})[0];
  EXPECT_EQ(empty.tensor().shape(), (Shape{0, 3}));
  EXPECT_THROW(RunNode(OneNode("Add", 2), {row, Tensor(DType::kFloat, {2})}), Error);
  EXPECT_THROW(RunNode(OneNode("Add", 2), {row, Tensor(DType::kDouble, {3})}), Error);
}

TEST(Elementwise, GivesTheSameOnManyThreads) {
  ThreadPool pool(3);
  RunServices services{.pool = &pool};
  Tensor a(DType::kFloat, {70, 1, 1000}), b(DType::kFloat, {5, 1000});
  for (int64_t i = 0; i < a.size(); ++i) a.MutableData<float>()[i] = static_cast<float>(i);
  for (int64_t i = 0; i < b.size(); ++i) b.MutableData<float>()[i] = static_cast<float>(i % 7);
  Value x = a, y = b;
  std::vector<const Value*> inputs = {&x, &y};
  Value one = EvaluateNode(OneNode("Mul", 2), inputs, RunServices{})[0];
  Value many = EvaluateNode(OneNode("Mul", 2), inputs, services)[0];
  EXPECT_EQ(one.tensor().shape(), (Shape{70, 5, 1000}));
  EXPECT_TRUE(Identical(one, many));
}

TEST(Elementwise, HalvesAreComputedInFloatAndRoundedOnce) {
  EXPECT_EQ(FromHalves(RunNode(OneNode("Add", 2), {Halves({1, 2048}), Halves({0.5f, 1})})[0]),
            (std::vector<float>{1.5f, 2048}));
  // Adding one by one in float16 would stay at 2048.
  EXPECT_EQ(FromHalves(RunNode(OneNode("Sum", 3), {Halves({2048}), Halves({1}), Halves({1})})[0]),
            (std::vector<float>{2050}));
  EXPECT_EQ(Elements<bool>(RunNode(OneNode("Less", 2), {Halves({1, 2}), Halves({2, 1})})[0]),
            (std::vector<bool>{true, false}));
}

TEST(Elementwise, MaxAndMinLetNaNWin) {
  auto max = RunBinary<float>("Max", {kNaN, 1, 3}, {1, kNaN, 2});
  EXPECT_TRUE(std::isnan(max[0]));
  EXPECT_TRUE(std::isnan(max[1]));
  EXPECT_EQ(max[2], 3);
  EXPECT_EQ(Elements<int8_t>(RunNode(OneNode("Min", 1), {Vector<int8_t>({5})})[0]), (std::vector<int8_t>{5}));
  Value wide = RunNode(OneNode("Max", 3), {Vector<int32_t>({1}), Vector<int32_t>({2}), Vector<int32_t>({0, 5})})[0];
  EXPECT_EQ(Elements<int32_t>(wide), (std::vector<int32_t>{2, 5}));
}

TEST(Elementwise, PowersOfMixedTypes) {
  EXPECT_EQ(RunBinary<int64_t>("Pow", {2, 3, -1, 1, 7}, {62, 0, -3, -5, -1}),
            (std::vector<int64_t>{int64_t{1} << 62, 1, -1, 1, 0}));
  EXPECT_NE(ErrorOf([] { RunBinary<int64_t>("Pow", {0}, {-1}); }).find("negative power"), std::string::npos);
  Value cut = RunNode(OneNode("Pow", 2), {Vector<int32_t>({2, 9}), Vector<float>({0.5f, 0.5f})})[0];
  EXPECT_EQ(Elements<int32_t>(cut), (std::vector<int32_t>{1, 3}));
  Value odd = RunNode(OneNode("Pow", 2), {Vector<float>({-1}), Vector<int64_t>({16777217})})[0];
  EXPECT_EQ(Elements<float>(odd), (std::vector<float>{-1}));
  Value square = RunNode(OneNode("Pow", 2), {Vector<float>({-3, 0.5f}), Tensor::Scalar<float>(2)})[0];
  EXPECT_EQ(Elements<float>(square), (std::vector<float>{9, 0.25f}));
}

TEST(Elementwise, ShiftsBeyondTheWidthLeaveTheSign) {
  std::vector<Attribute> left = {{"direction", std::string("LEFT")}}, right = {{"direction", std::string("RIGHT")}};
  EXPECT_EQ(RunBinary<uint32_t>("BitShift", {1, 1}, {31, 32}, left), (std::vector<uint32_t>{1u << 31, 0}));
  EXPECT_EQ(RunBinary<int16_t>("BitShift", {-8, -8, 8, -8}, {1, 16, 99, -1}, right),
            (std::vector<int16_t>{-4, -1, 0, -1}));
  EXPECT_EQ(RunBinary<int8_t>("BitShift", {-128, 64}, {1, 1}, left), (std::vector<int8_t>{0, -128}));
  EXPECT_THROW(RunBinary<uint8_t>("BitShift", {1}, {1}), Error);
}

TEST(Elementwise, AbsAndNegOfTheSmallestIntegerStayPut) {
  EXPECT_EQ(Elements<int32_t>(RunNode(OneNode("Abs", 1), {Vector<int32_t>({INT32_MIN, -3})})[0]),
            (std::vector<int32_t>{INT32_MIN, 3}));
  EXPECT_EQ(Elements<int8_t>(RunNode(OneNode("Neg", 1), {Vector<int8_t>({-128, 5})})[0]),
            (std::vector<int8_t>{-128, -5}));
}

TEST(Elementwise, ActivationsKeepNaNAndSurviveExtremes) {
  for (const char* op : {"Relu", "Sigmoid", "Softplus", "Mish", "Elu", "Selu", "Celu", "Gelu", "LeakyRelu",
                         "HardSigmoid", "HardSwish", "Softsign", "Swish", "Clip", "Sign"})
    EXPECT_TRUE(std::isnan(Elements<float>(RunNode(OneNode(op, 1), {Vector<float>({kNaN})})[0])[0])) << op;
  EXPECT_EQ(Elements<float>(RunNode(OneNode("Softplus", 1), {Vector<float>({1000, -1000, kInf})})[0]),
            (std::vector<float>{1000, 0, kInf}));
  EXPECT_EQ(Elements<float>(RunNode(OneNode("Sigmoid", 1), {Vector<float>({-1000, 1000})})[0]),
            (std::vector<float>{0, 1}));
}

TEST(Elementwise, ClipWithMinAboveMaxGivesMax) {
  Value out = RunNode(OneNode("Clip", 3),
                      {Vector<int32_t>({-5, 0, 5}), Tensor::Scalar<int32_t>(3), Tensor::Scalar<int32_t>(1)})[0];
  EXPECT_EQ(Elements<int32_t>(out), (std::vector<int32_t>{1, 1, 1}));
  Value high = RunNode(OneNode("Clip", 3), {Vector<float>({-kInf, 2}), Value(), Tensor::Scalar<float>(1)})[0];
  EXPECT_EQ(Elements<float>(high), (std::vector<float>{-kInf, 1}));
  EXPECT_THROW(RunNode(OneNode("Clip", 2), {Vector<float>({1}), Vector<float>({1, 2})}), Error);
}

TEST(Elementwise, StringsCompareAndAreChosen) {
  Value a = Vector<std::string>({"x", "y"}), b = Vector<std::string>({"x"});
  EXPECT_EQ(Elements<bool>(RunNode(OneNode("Equal", 2), {a, b})[0]), (std::vector<bool>{true, false}));
  Value chosen = RunNode(OneNode("Where", 3), {Vector<bool>({true, false}), a, b})[0];
  EXPECT_EQ(Elements<std::string>(chosen), (std::vector<std::string>{"x", "x"}));
  EXPECT_THROW(RunNode(OneNode("Where", 3), {a, a, b}), Error);
}

TEST(Elementwise, PReluRefusesASlopeThatWouldGrowTheInput) {
  EXPECT_THROW(RunNode(OneNode("PRelu", 2), {Vector<float>({1}), Vector<float>({1, 2})}), Error);
}

TEST(Elementwise, UnlistedTypesAreRefused) {
  EXPECT_NE(ErrorOf([] {
              RunNode(OneNode("Add", 2), {Vector<bool>({true}), Vector<bool>({true})});
            }).find("bool"),
            std::string::npos);
  EXPECT_THROW(RunNode(OneNode("Exp", 1), {Vector<int32_t>({1})}), Error);
  EXPECT_THROW(RunNode(OneNode("BitwiseAnd", 2), {Vector<float>({1}), Vector<float>({1})}), Error);
}

ValueFacts Elements(DType type, SymbolicShape elements) {
  ValueFacts facts;
  facts.type = Type::Tensor(type, {Dim(static_cast<int64_t>(elements.size()))});
  facts.elements = std::move(elements);
  return facts;
}

std::string InferredElements(const std::string& op, const std::vector<ValueFacts>& inputs,
                             std::vector<Attribute> attributes = {}) {
  ValueFacts out = InferNode(OneNode(op, inputs.size(), std::move(attributes)), inputs)[0];
  return out.elements ? ToText(*out.elements) : "none";
}

TEST(ElementwiseInference, CarriesShapesThroughArithmetic) {
  Dim batch = Dim::Named("batch");
  ValueFacts shape = Elements(DType::kInt64, {batch, 12}), number = Elements(DType::kInt64, {4});
  EXPECT_EQ(InferredElements("Div", {shape, number}), "[?, 3]");
  EXPECT_EQ(InferredElements("Mul", {shape, Elements(DType::kInt64, {1})}), "[batch, 12]");
  EXPECT_EQ(InferredElements("Sub", {shape, shape}), "[0, 0]");
  EXPECT_EQ(InferredElements("Mod", {shape, number}), "[?, 0]");
  EXPECT_EQ(InferredElements("Max", {shape, Elements(DType::kInt64, {0})}), "[batch, 12]");
  EXPECT_EQ(InferredElements("Neg", {number}), "[-4]");
  EXPECT_EQ(InferredElements("Cast", {shape}, {{"to", int64_t{6}}}), "[batch, 12]");
  EXPECT_EQ(InferredElements("Equal", {shape, Elements(DType::kInt64, {-1})}), "[0, 0]");
  EXPECT_EQ(InferredElements("Where", {Elements(DType::kBool, {0, 1}), shape, Elements(DType::kInt64, {7, 8})}),
            "[7, 12]");
}

TEST(ElementwiseInference, LeavesOpenWhatWouldWrap) {
  ValueFacts large = Elements(DType::kInt32, {INT32_MAX});
  EXPECT_EQ(InferredElements("Add", {large, Elements(DType::kInt32, {1})}), "[?]");
}

TEST(ElementwiseInference, BroadcastsNames) {
  ValueFacts a, b;
  a.type = Type::Tensor(DType::kFloat, {Dim::Named("n"), 1});
  b.type = Type::Tensor(DType::kFloat, {5});
  EXPECT_EQ(ToText(InferNode(OneNode("Add", 2), {a, b})[0].type), "float[n, 5]");
  EXPECT_EQ(ToText(InferNode(OneNode("Less", 2), {a, b})[0].type), "bool[n, 5]");
}

}  // namespace
}  // namespace ferry::testing

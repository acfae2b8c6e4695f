#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/nodes.h"

namespace ferry::testing {
namespace {

Value Reduce(const std::string& op, const Tensor& x, const std::vector<int64_t>& axes,
             std::vector<Attribute> attributes = {}) {
  return RunNode(OneNode(op, 2, std::move(attributes)), {x, Tensor::FromVector(axes)})[0];
}

Tensor Counting(const Shape& shape) {
  Tensor x(DType::kFloat, shape);
  for (int64_t i = 0; i < x.size(); ++i) x.MutableData<float>()[i] = static_cast<float>(i);
  return x;
}

TEST(Reduce, AxesThatAreNotNeighbours) {
  Value sum = Reduce("ReduceSum", Counting({2, 3, 4}), {0, -1}, {{"keepdims", int64_t{0}}});
  EXPECT_EQ(sum.tensor().shape(), (Shape{3}));
  EXPECT_EQ(Elements<float>(sum), (std::vector<float>{60, 92, 124}));
  Value middle = Reduce("ReduceMax", Counting({2, 3, 300}), {1});
  EXPECT_EQ(middle.tensor().shape(), (Shape{2, 1, 300}));
  EXPECT_EQ(Elements<float>(middle)[299], 899);
}

TEST(Reduce, EmptySets) {
  Tensor empty(DType::kFloat, {2, 0, 3});
  constexpr float kInf = std::numeric_limits<float>::infinity();
  auto first = [&](const char* op) { return Elements<float>(Reduce(op, empty, {1}))[0]; };
  EXPECT_EQ(first("ReduceSum"), 0);
  EXPECT_EQ(first("ReduceProd"), 1);
  EXPECT_EQ(first("ReduceMax"), -kInf);
  EXPECT_EQ(first("ReduceMin"), kInf);
  EXPECT_EQ(first("ReduceL2"), 0);
  EXPECT_EQ(first("ReduceLogSum"), -kInf);
  EXPECT_EQ(first("ReduceLogSumExp"), -kInf);
  EXPECT_TRUE(std::isnan(first("ReduceMean")));
  EXPECT_EQ(Elements<int8_t>(Reduce("ReduceMax", Tensor(DType::kInt8, {0}), {0}))[0], -128);
  EXPECT_EQ(Elements<bool>(Reduce("ReduceMin", Tensor(DType::kBool, {0}), {0}))[0], true);
  EXPECT_EQ(Elements<bool>(Reduce("ReduceMax", Tensor(DType::kBool, {0}), {0}))[0], false);
  EXPECT_THROW(Reduce("ReduceMean", Tensor(DType::kInt32, {0}), {0}), Error);
  EXPECT_EQ(Reduce("ReduceSum", Tensor(DType::kFloat, {0, 3, 4}), {2, 0}).tensor().shape(), (Shape{1, 3, 1}));
}

TEST(Reduce, NoAxesMeansAllOrNone) {
  Tensor x = Tensor::FromVector<float>({-1, 2}, {1, 2});
  EXPECT_EQ(Elements<float>(RunNode(OneNode("ReduceSum", 1), {x})[0]), (std::vector<float>{1}));
  std::vector<Attribute> none = {{"noop_with_empty_axes", int64_t{1}}};
  EXPECT_EQ(Elements<float>(Reduce("ReduceSum", x, {}, none)), (std::vector<float>{-1, 2}));
  EXPECT_EQ(Elements<float>(Reduce("ReduceSumSquare", x, {}, none)), (std::vector<float>{1, 4}));
  EXPECT_EQ(Elements<float>(Reduce("ReduceL1", x, {}, none)), (std::vector<float>{1, 2}));
  EXPECT_EQ(Elements<float>(RunNode(OneNode("ReduceMax", 1), {Tensor::Scalar<float>(3)})[0]), (std::vector<float>{3}));
}

TEST(Reduce, IntegersWrapAndMeansAreCut) {
  Tensor x = Tensor::FromVector<int32_t>({INT32_MAX, 1});
  EXPECT_EQ(Elements<int32_t>(Reduce("ReduceSum", x, {0}))[0], INT32_MIN);
  EXPECT_EQ(Elements<int32_t>(Reduce("ReduceMean", Tensor::FromVector<int32_t>({-3, -4}), {0}))[0], -3);
  EXPECT_EQ(Elements<uint64_t>(Reduce("ReduceMean", Tensor::FromVector<uint64_t>({UINT64_MAX - 1}), {0}))[0],
            UINT64_MAX - 1);
  EXPECT_EQ(Elements<int32_t>(Reduce("ReduceL1", Tensor::FromVector<int32_t>({-3, 4}), {0}))[0], 7);
}

TEST(Reduce, LargeSumsStayAccurate) {
  Tensor x(DType::kFloat, {1 << 20});
  std::fill_n(x.MutableData<float>(), x.size(), 0.1f);
  EXPECT_FLOAT_EQ(Elements<float>(Reduce("ReduceSum", x, {0}))[0], static_cast<float>(double{0.1f} * (1 << 20)));
  EXPECT_FLOAT_EQ(Elements<float>(Reduce("ReduceLogSumExp", Tensor::FromVector<float>({1000, 1000}), {0}))[0],
                  1000 + std::log(2.0f));
}

TEST(Reduce, NaNWinsAndBadAxesAreRefused) {
  Tensor x = Tensor::FromVector<float>({1, std::nanf(""), 3});
  EXPECT_TRUE(std::isnan(Elements<float>(Reduce("ReduceMax", x, {0}))[0]));
  EXPECT_THROW(Reduce("ReduceMax", x, {1}), Error);
  EXPECT_THROW(Reduce("ReduceMax", x, {0, 0}), Error);
}

TEST(ArgMax, TiesNaNAndEmptiness) {
  auto arg = [](const char* op, const Tensor& x, std::vector<Attribute> attributes = {}) {
    return Elements<int64_t>(RunNode(OneNode(op, 1, std::move(attributes)), {x})[0]);
  };
  Tensor ties = Tensor::FromVector<int32_t>({2, 5, 5, 2});
  EXPECT_EQ(arg("ArgMax", ties), (std::vector<int64_t>{1}));
  EXPECT_EQ(arg("ArgMax", ties, {{"select_last_index", int64_t{1}}}), (std::vector<int64_t>{2}));
  EXPECT_EQ(arg("ArgMin", ties, {{"select_last_index", int64_t{1}}}), (std::vector<int64_t>{3}));
  EXPECT_EQ(arg("ArgMin", Tensor::FromVector<float>({1, std::nanf(""), 0})), (std::vector<int64_t>{1}));
  EXPECT_THROW(arg("ArgMax", Tensor(DType::kFloat, {0, 2})), Error);
  EXPECT_TRUE(arg("ArgMax", Tensor(DType::kFloat, {2, 0}), {{"axis", int64_t{0}}}).empty());
}

TEST(Softmax, LinesAlongAnyAxis) {
  Tensor x = Counting({2, 3, 40});
  Value middle = RunNode(OneNode("Softmax", 1, {{"axis", int64_t{1}}}), {x})[0];
  std::vector<float> y = Elements<float>(middle);
  for (size_t column : {0u, 17u, 39u}) EXPECT_NEAR(y[column] + y[column + 40] + y[column + 80], 1, 1e-6);
  EXPECT_EQ(RunNode(OneNode("Softmax", 1), {Tensor(DType::kFloat, {3, 0})})[0].tensor().shape(), (Shape{3, 0}));
  EXPECT_EQ(Elements<float>(RunNode(OneNode("Hardmax", 1), {Tensor::FromVector<float>({3, 3, 1})})[0]),
            (std::vector<float>{1, 0, 0}));
  EXPECT_THROW(RunNode(OneNode("Softmax", 1, {{"axis", int64_t{3}}}), {x}), Error);
}

TEST(Cumulative, ExclusiveAndReverse) {
  Tensor x = Tensor::FromVector<int32_t>({1, 2, 3}), axis = Tensor::Scalar<int64_t>(0);
  auto run = [&](const char* op, int64_t exclusive, int64_t reverse) {
    return Elements<int32_t>(RunNode(OneNode(op, 2, {{"exclusive", exclusive}, {"reverse", reverse}}), {x, axis})[0]);
  };
  EXPECT_EQ(run("CumSum", 1, 0), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(run("CumSum", 1, 1), (std::vector<int32_t>{5, 3, 0}));
  EXPECT_EQ(run("CumProd", 0, 1), (std::vector<int32_t>{6, 6, 3}));
  EXPECT_EQ(run("CumProd", 1, 1), (std::vector<int32_t>{6, 3, 1}));
  EXPECT_THROW(RunNode(OneNode("CumSum", 2), {x, Tensor::Scalar<int64_t>(1)}), Error);
}

ValueFacts Facts(DType type, SymbolicShape shape) {
  ValueFacts facts;
  facts.type = Type::Tensor(type, std::move(shape));
  return facts;
}

TEST(ReduceInference, KnownAndUnknownAxes) {
  ValueFacts x = Facts(DType::kFloat, {Dim::Named("n"), 1, 5}), axes = Facts(DType::kInt64, {1});
  EXPECT_EQ(ToText(InferNode(OneNode("ReduceSum", 2), {x, axes})[0].type), "float[?, 1, ?]");
  axes.elements = SymbolicShape{Dim(2)};
  EXPECT_EQ(ToText(InferNode(OneNode("ReduceSum", 2), {x, axes})[0].type), "float[n, 1, 1]");
  EXPECT_EQ(ToText(InferNode(OneNode("ReduceSum", 2, {{"keepdims", int64_t{0}}}), {x, axes})[0].type), "float[n, 1]");
  EXPECT_EQ(ToText(InferNode(OneNode("ArgMax", 1, {{"keepdims", int64_t{0}}}), {x})[0].type), "int64[1, 5]");
}

TEST(ReduceInference, MultipliesTheEntriesOfAShape) {
  ValueFacts shape = Facts(DType::kInt64, {3});
  shape.elements = SymbolicShape{Dim(2), Dim(3), Dim(4)};
  std::vector<ValueFacts> out = InferNode(OneNode("ReduceProd", 1, {{"keepdims", int64_t{0}}}), {shape});
  ASSERT_TRUE(out[0].elements);
  EXPECT_EQ(ToText(*out[0].elements), "[24]");
}

}  // namespace
}  // namespace ferry::testing

#include "passes/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/evaluate.h"
#include "ops/operator.h"
#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;
using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

Node GradientNode(Ints::size_type count, std::string y, std::vector<std::string> zs = {}) {
  std::vector<std::string> xs, outputs;
  for (size_t i = 0; i < count; ++i) {
    xs.push_back("x" + std::to_string(i));
    outputs.push_back("d" + std::to_string(i));
  }
  std::vector<std::string> inputs = xs;
  inputs.insert(inputs.end(), zs.begin(), zs.end());
  Node node = MakeNode("Gradient", inputs, outputs, {{"xs", xs}, {"y", std::move(y)}});
  if (!zs.empty()) node.Set("zs", zs);
  node.domain = kTrainingDomain;
  return node;
}

Model WithGradient(const std::vector<Tensor>& inputs, std::vector<Node> nodes, std::vector<StoredTensor> constants) {
  std::vector<ValueInfo> infos, outputs{MakeInfo("y", DType::kDouble)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    infos.push_back(MakeInfo("x" + std::to_string(i), DType::kDouble, ToSymbolic(inputs[i].shape())));
    outputs.push_back(MakeInfo("d" + std::to_string(i), DType::kDouble));
  }
  nodes.push_back(GradientNode(inputs.size(), "y"));
  return MakeModel(infos, std::move(nodes), outputs, std::move(constants));
}

double SumOf(const Value& value) {
  double sum = 0;
  for (double v : value.tensor().Span<double>()) sum += v;
  return sum;
}

// Holds the derivatives of Σy against differences of Σy itself.
void CheckGradient(const std::string& what, std::vector<Tensor> inputs, const std::vector<Node>& nodes,
                   const std::vector<StoredTensor>& constants = {}) {
  SCOPED_TRACE(what);
  Model model = WithGradient(inputs, nodes, constants);
  ASSERT_TRUE(ExpandGradients(model));
  std::vector<Value> values(inputs.begin(), inputs.end());
  std::vector<Value> results;
  ASSERT_EQ(ErrorOf([&] { results = EvaluateGraph(model.graph, values, RunServices{}); }), "no error");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& derivative = results[i + 1].tensor();
    ASSERT_EQ(derivative.shape(), inputs[i].shape());
    for (int64_t k = 0; k < inputs[i].size(); ++k) {
      constexpr double kStep = 1e-5;
      auto at = [&](double step) {
        std::vector<Value> moved = values;
        Tensor copy = inputs[i].Clone();
        copy.MutableData<double>()[k] += step;
        moved[i] = copy;
        return SumOf(EvaluateGraph(model.graph, moved, RunServices{})[0]);
      };
      double expected = (at(kStep) - at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(derivative.Data<double>()[k], expected, 1e-5 * (1 + std::abs(expected)))
          << "input " << i << ", element " << k;
    }
  }
}

// Distinct values without zeros or ties, in (low, high).
Tensor Spread(Shape shape, double low = -1.5, double high = 1.5) {
  Tensor t(DType::kDouble, shape);
  for (int64_t i = 0; i < t.size(); ++i) {
    double unit = std::fmod(0.137 + 0.618034 * static_cast<double>(i), 1.0);
    t.MutableData<double>()[i] = low + (high - low) * unit;
  }
  return t;
}
StoredTensor Const(std::string name, Tensor value) { return MakeStored(std::move(name), std::move(value)); }
StoredTensor ConstInts(std::string name, const Ints& values) {
  return Const(std::move(name), Tensor::FromVector(values));
}

TEST(Gradient, OfUnaryOperators) {
  for (const char* op : {"Neg",
                         "Abs",
                         "Exp",
                         "Sin",
                         "Cos",
                         "Tan",
                         "Atan",
                         "Sinh",
                         "Cosh",
                         "Tanh",
                         "Asinh",
                         "Erf",
                         "Sigmoid",
                         "Relu",
                         "LeakyRelu",
                         "Elu",
                         "Selu",
                         "Celu",
                         "Softplus",
                         "Softsign",
                         "HardSigmoid",
                         "HardSwish",
                         "Mish",
                         "Gelu",
                         "Softmax",
                         "LogSoftmax",
                         "Floor",
                         "Sign",
                         "Identity",
                         "Reciprocal",
                         "ThresholdedRelu",
                         "Swish",
                         "Flatten",
                         "ReduceSum",
                         "ReduceMean",
                         "ReduceMax",
                         "ReduceMin",
                         "ReduceL1",
                         "ReduceL2",
                         "ReduceSumSquare",
                         "ReduceLogSumExp",
                         "Trilu",
                         "Transpose"}) {
    CheckGradient(op, {Spread({2, 3})}, {MakeNode(op, {"x0"}, {"a"}), MakeNode("Mul", {"a", "a"}, {"y"})});
  }
  for (const char* op : {"Log", "Sqrt", "Asin", "Acos", "Atanh", "ReduceLogSum"})
    CheckGradient(op, {Spread({2, 3}, 0.1, 0.9)}, {MakeNode(op, {"x0"}, {"y"})});
  CheckGradient("Acosh", {Spread({3}, 1.1, 3)}, {MakeNode("Acosh", {"x0"}, {"y"})});
  CheckGradient("Gelu tanh", {Spread({5})}, {MakeNode("Gelu", {"x0"}, {"y"}, {{"approximate", std::string("tanh")}})});
}

TEST(Gradient, OfBroadcastArithmetic) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "PRelu"})
    CheckGradient(op, {Spread({2, 3}), Spread({3}, 0.5, 2)},
                  {MakeNode(op, {"x0", "x1"}, {"a"}), MakeNode("Mul", {"a", "a"}, {"y"})});
  CheckGradient("both sides", {Spread({2, 1, 3}), Spread({4, 1})}, {MakeNode("Mul", {"x0", "x1"}, {"y"})});
  CheckGradient("Pow", {Spread({2, 3}, 0.5, 2), Spread({3}, 1, 3)}, {MakeNode("Pow", {"x0", "x1"}, {"y"})});
  CheckGradient("Where", {Spread({2, 3}), Spread({})},
                {MakeNode("Greater", {"x0", "zero"}, {"c"}), MakeNode("Where", {"c", "x0", "x1"}, {"a"}),
                 MakeNode("Mul", {"a", "a"}, {"y"})},
                {Const("zero", Tensor::Scalar<double>(0))});
  CheckGradient("Clip", {Spread({6})},
                {MakeNode("Clip", {"x0", "low", "high"}, {"a"}), MakeNode("Mul", {"a", "a"}, {"y"})},
                {Const("low", Tensor::Scalar<double>(-0.5)), Const("high", Tensor::Scalar<double>(0.7))});
}

TEST(Gradient, OfProducts) {
  auto matmul = [](Shape a, Shape b) {
    CheckGradient(Cat("MatMul ", a, b), {Spread(a), Spread(b)},
                  {MakeNode("MatMul", {"x0", "x1"}, {"a"}), MakeNode("Mul", {"a", "a"}, {"y"})});
  };
  matmul({2, 3}, {3, 2});
  matmul({3}, {3});
  matmul({3}, {2, 3, 4});
  matmul({2, 4, 3}, {3});
  matmul({2, 1, 2, 3}, {4, 3, 2});
  for (int64_t ta : {0, 1})
    for (int64_t tb : {0, 1})
      CheckGradient("Gemm",
                    {Spread(ta ? Shape{3, 2} : Shape{2, 3}), Spread(tb ? Shape{4, 3} : Shape{3, 4}), Spread({4})},
                    {MakeNode("Gemm", {"x0", "x1", "x2"}, {"a"},
                              {{"transA", ta}, {"transB", tb}, {"alpha", 0.5f}, {"beta", 2.0f}}),
                     MakeNode("Mul", {"a", "a"}, {"y"})});
  CheckGradient("Einsum", {Spread({2, 3}), Spread({3, 4}), Spread({2})},
                {MakeNode("Einsum", {"x0", "x1", "x2"}, {"a"}, {{"equation", std::string("ij,jk,i->ik")}}),
                 MakeNode("Mul", {"a", "a"}, {"y"})});
  CheckGradient(
      "Einsum that sums a letter away", {Spread({2, 3})},
      {MakeNode("Einsum", {"x0"}, {"a"}, {{"equation", std::string("ij->i")}}), MakeNode("Mul", {"a", "a"}, {"y"})});
}

TEST(Gradient, OfConvolutions) {
  auto conv = [](const char* op, Shape x, Shape w, std::vector<Attribute> attributes) {
    Node node = MakeNode(op, {"x0", "x1", "x2"}, {"a"}, attributes);
    int64_t out = node.op_type == "Conv" ? w[0] : w[1] * node.Int("group", 1);
    CheckGradient(Cat(op, " ", x, w), {Spread(x), Spread(w), Spread({out})},
                  {node, MakeNode("Mul", {"a", "a"}, {"y"})});
  };
  conv("Conv", {1, 2, 5, 6}, {3, 2, 3, 2}, {});
  conv("Conv", {2, 2, 6}, {4, 1, 3}, {{"pads", Ints{1, 2}}, {"strides", Ints{2}}, {"group", int64_t{2}}});
  conv("Conv", {1, 1, 8}, {1, 1, 2}, {{"strides", Ints{3}}, {"dilations", Ints{2}}, {"pads", Ints{0, 1}}});
  conv("ConvTranspose", {1, 2, 4}, {2, 3, 3}, {{"strides", Ints{2}}, {"pads", Ints{1, 0}}});
  conv("ConvTranspose", {2, 4, 3}, {4, 1, 2},
       {{"output_padding", Ints{1}}, {"strides", Ints{2}}, {"group", int64_t{2}}});
}

TEST(Gradient, OfPoolingAndNormalization) {
  std::vector<Node> square{MakeNode("Mul", {"a", "a"}, {"y"})};
  auto squared = [&](Node node) { return std::vector<Node>{std::move(node), square[0]}; };
  CheckGradient("MaxPool", {Spread({1, 2, 5})},
                squared(MakeNode("MaxPool", {"x0"}, {"a"}, {{"kernel_shape", Ints{2}}, {"strides", Ints{1}}})));
  for (int64_t include : {0, 1})
    CheckGradient("AveragePool", {Spread({1, 2, 5, 4})},
                  squared(MakeNode("AveragePool", {"x0"}, {"a"},
                                   {{"kernel_shape", Ints{3, 2}},
                                    {"strides", Ints{2, 1}},
                                    {"pads", Ints{1, 0, 1, 1}},
                                    {"count_include_pad", include}})));
  CheckGradient("GlobalAveragePool", {Spread({1, 2, 5, 2})}, squared(MakeNode("GlobalAveragePool", {"x0"}, {"a"})));
  CheckGradient("LayerNormalization", {Spread({2, 3, 4}), Spread({3, 4}), Spread({3, 4})},
                squared(MakeNode("LayerNormalization", {"x0", "x1", "x2"}, {"a"}, {{"axis", int64_t{1}}})));
  CheckGradient("BatchNormalization", {Spread({2, 3, 4}), Spread({3}), Spread({3}), Spread({3}), Spread({3}, 0.5, 2)},
                squared(MakeNode("BatchNormalization", {"x0", "x1", "x2", "x3", "x4"}, {"a"})));
}

TEST(Gradient, OfWhatDiffersWhileTraining) {
  Node norm = MakeNode("BatchNormalization", {"x0", "x1", "x2", "mean", "var"}, {"a", "m", "v"},
                       {{"training_mode", int64_t{1}}});
  CheckGradient("BatchNormalization", {Spread({3, 2, 4}), Spread({2}), Spread({2})},
                {norm, MakeNode("Exp", {"a"}, {"y"})}, {Const("mean", Spread({2})), Const("var", Spread({2}, 0.5, 2))});
  for (bool training : {false, true})
    CheckGradient(
        Cat("Dropout ", training), {Spread({4, 5})},
        {MakeNode("Dropout", {"x0", "r", "t"}, {"a"}, {{"seed", int64_t{3}}}), MakeNode("Mul", {"a", "a"}, {"y"})},
        {Const("r", Tensor::Scalar<float>(0.3f)), Const("t", Tensor::Scalar(training))});
}

TEST(Gradient, OfMovedElements) {
  auto squared = [](Node node) { return std::vector<Node>{std::move(node), MakeNode("Mul", {"a", "a"}, {"y"})}; };
  CheckGradient(
      "Slice", {Spread({4, 5})}, squared(MakeNode("Slice", {"x0", "s", "e", "ax", "st"}, {"a"})),
      {ConstInts("s", {3, -1}), ConstInts("e", {-10, 0}), ConstInts("ax", {0, 1}), ConstInts("st", {-2, -3})});
  CheckGradient("Gather", {Spread({3, 4})}, squared(MakeNode("Gather", {"x0", "i"}, {"a"}, {{"axis", int64_t{-1}}})),
                {ConstInts("i", {0, 2, 0, -1})});
  CheckGradient("GatherElements", {Spread({3, 2})}, squared(MakeNode("GatherElements", {"x0", "i"}, {"a"})),
                {Const("i", Tensor::FromVector<int64_t>({0, 1, 0, 2}, {2, 2}))});
  CheckGradient("Tile", {Spread({2, 2})}, squared(MakeNode("Tile", {"x0", "r"}, {"a"})), {ConstInts("r", {2, 3})});
  CheckGradient("Expand", {Spread({2, 1})}, squared(MakeNode("Expand", {"x0", "r"}, {"a"})),
                {ConstInts("r", {3, 2, 4})});
  for (const char* mode : {"constant", "reflect", "edge", "wrap"})
    CheckGradient(Cat("Pad ", mode), {Spread({3, 3})},
                  squared(MakeNode("Pad", {"x0", "p", "v"}, {"a"}, {{"mode", std::string(mode)}})),
                  {ConstInts("p", {1, 0, 2, -1}), Const("v", Tensor::Scalar<double>(7))});
  CheckGradient("Concat and Split", {Spread({2, 2}), Spread({2, 3})},
                {MakeNode("Concat", {"x0", "x1"}, {"b"}, {{"axis", int64_t{-1}}}),
                 MakeNode("Split", {"b"}, {"l", "r"}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}),
                 MakeNode("ReduceMax", {"l"}, {"m"}, {{"keepdims", int64_t{0}}}), MakeNode("Mul", {"m", "l"}, {"y"})});
  CheckGradient("Transpose", {Spread({2, 3, 4})},
                squared(MakeNode("Transpose", {"x0"}, {"a"}, {{"perm", Ints{1, 2, 0}}})));
  CheckGradient("CumSum", {Spread({4})}, squared(MakeNode("CumSum", {"x0", "i"}, {"a"}, {{"exclusive", int64_t{1}}})),
                {Const("i", Tensor::Scalar<int64_t>(0))});
  for (int64_t keep : {0, 1})
    for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp"})
      CheckGradient(op, {Spread({2, 3, 2})}, squared(MakeNode(op, {"x0", "ax"}, {"a"}, {{"keepdims", keep}})),
                    {ConstInts("ax", {-1, 0})});
}

TEST(Gradient, OfLosses) {
  for (const char* reduction : {"none", "mean", "sum"}) {
    CheckGradient(Cat("SoftmaxCrossEntropyLoss ", reduction), {Spread({4, 3})},
                  {MakeNode("SoftmaxCrossEntropyLoss", {"x0", "t", "w"}, {"y"},
                            {{"reduction", std::string(reduction)}, {"ignore_index", int64_t{2}}})},
                  {ConstInts("t", {0, 2, 1, 0}), Const("w", Spread({3}, 0.5, 2))});
    CheckGradient(Cat("NegativeLogLikelihoodLoss ", reduction), {Spread({2, 3, 2})},
                  {MakeNode("NegativeLogLikelihoodLoss", {"x0", "t"}, {"y"}, {{"reduction", std::string(reduction)}})},
                  {Const("t", Tensor::FromVector<int64_t>({0, 2, 1, 0}, {2, 2}))});
  }
}

// y = x³: the second Gradient differentiates what the first one was written out to.
TEST(Gradient, OfAGradient) {
  Node second =
      MakeNode("Gradient", {"x0"}, {"dd"}, {{"xs", std::vector<std::string>{"x0"}}, {"y", std::string("d0")}});
  second.domain = kTrainingDomain;
  Model model = MakeModel(
      {MakeInfo("x0", DType::kDouble, {2})},
      {MakeNode("Mul", {"x0", "x0"}, {"s"}), MakeNode("Mul", {"s", "x0"}, {"y"}), GradientNode(1, "y"), second},
      {MakeInfo("d0"), MakeInfo("dd")});
  ExpandGradients(model);
  auto out = EvaluateGraph(model.graph, std::vector<Value>{Tensor::FromVector<double>({2, 3})}, RunServices{});
  EXPECT_EQ(testing::Elements<double>(out[0]), (Doubles{12, 27}));
  EXPECT_EQ(testing::Elements<double>(out[1]), (Doubles{12, 18}));
}

// The gradient of the graph's own function, at a point of the caller's choice, and with one variable held fixed.
TEST(Gradient, AtAnotherPoint) {
  Node gradient =
      MakeNode("Gradient", {"p", "q"}, {"d"},
               {{"xs", std::vector<std::string>{"a"}}, {"zs", std::vector<std::string>{"b"}}, {"y", std::string("y")}});
  gradient.domain = kTrainingDomain;
  Model model = MakeModel({MakeInfo("a", DType::kDouble, {}), MakeInfo("b", DType::kDouble, {}),
                           MakeInfo("p", DType::kDouble, {}), MakeInfo("q", DType::kDouble, {})},
                          {gradient, MakeNode("Mul", {"a", "b"}, {"m"}), MakeNode("Mul", {"m", "a"}, {"y"})},
                          {MakeInfo("y"), MakeInfo("d")});
  ExpandGradients(model);
  auto scalar = [](double v) { return Value(Tensor::Scalar(v)); };
  auto out = EvaluateGraph(model.graph, std::vector<Value>{scalar(2), scalar(3), scalar(5), scalar(7)}, RunServices{});
  EXPECT_EQ(testing::Elements<double>(out[0]), (Doubles{12}));
  EXPECT_EQ(testing::Elements<double>(out[1]), (Doubles{70}));
}

TEST(Gradient, IsZeroForWhatTheResultDoesNotDependOn) {
  Model model = WithGradient({Spread({2}), Spread({3})}, {MakeNode("Mul", {"x0", "x0"}, {"y"})}, {});
  ExpandGradients(model);
  auto out = EvaluateGraph(model.graph, std::vector<Value>{Spread({2}), Spread({3})}, RunServices{});
  EXPECT_EQ(testing::Elements<double>(out[2]), (Doubles{0, 0, 0}));
}

TEST(Gradient, NamesTheOperatorThatHasNoRule) {
  Model model = WithGradient({Spread({2, 2})}, {MakeNode("Det", {"x0"}, {"y"})}, {});
  EXPECT_THAT(ErrorOf([&] { ExpandGradients(model); }), HasSubstr("(Det): there is no rule for the gradient"));
  Model wrong = WithGradient({Spread({2})}, {}, {});
  wrong.graph.nodes[0].Set("xs", std::vector<std::string>{"x0", "x1"});
  EXPECT_THAT(ErrorOf([&] { ExpandGradients(wrong); }), HasSubstr("1 inputs for 2 names"));
}

}  // namespace
}  // namespace ferry

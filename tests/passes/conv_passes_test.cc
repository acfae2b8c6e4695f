// The rewrites around convolutions, one by one: what they take, and what they must leave alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/support/fused.h"
#include "passes/channels_last.h"
#include "passes/fold_batch_norm.h"
#include "passes/fold_pad.h"
#include "passes/fuse_conv.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;

Tensor Ones(Shape shape) {
  Tensor tensor(DType::kFloat, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<float>()[i] = 1.0f;
  return tensor;
}

Graph MakeGraph(std::vector<Node> nodes, std::vector<std::string> outputs, std::vector<StoredTensor> more = {}) {
  more.push_back(MakeStored("w", Ones({8, 8, 3, 3})));
  for (const char* name : {"scale", "shift", "mean", "var"}) more.push_back(MakeStored(name, Ones({8})));
  std::vector<ValueInfo> infos;
  for (const std::string& name : outputs) infos.push_back(MakeInfo(name));
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("batch"), 8, 10, 10})}, std::move(nodes), infos, more)
      .graph;
}

std::vector<std::string> Operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.op_type);
  return names;
}

bool MoveChannelsLast(Graph& graph) {
  GraphFacts facts;
  return ferry::MoveChannelsLast(graph, facts);
}
bool FuseConv(Graph& graph) {
  GraphFacts facts;
  return ferry::FuseConv(graph, facts);
}

using Names = std::vector<std::string>;
const std::vector<int64_t> kOnePixel{1, 1, 1, 1};

Node Conv(const std::string& from, const std::string& to) {
  return MakeNode("Conv", {from, "w"}, {to}, {{"pads", kOnePixel}});
}
Node Norm(const std::string& from, const std::string& to) {
  return MakeNode("BatchNormalization", {from, "scale", "shift", "mean", "var"}, {to});
}

TEST(FoldBatchNorm, ScalesWeightsOfTheConvolutionBefore) {
  Graph graph = MakeGraph({Conv("x", "c"), Norm("c", "y")}, {"y"});
  EXPECT_TRUE(FoldBatchNorm(graph));
  ASSERT_EQ(Operators(graph), (Names{"Conv"}));
  EXPECT_EQ(graph.nodes[0].outputs[0], "y");
  ASSERT_EQ(graph.nodes[0].inputs.size(), 3u);
  const StoredTensor* weight = graph.FindInitializer(graph.nodes[0].inputs[1]);
  ASSERT_NE(weight, nullptr);
  EXPECT_NEAR(weight->tensor.Data<float>()[0], 1.0 / std::sqrt(1.0 + 1e-5), 1e-6);
}

TEST(FoldBatchNorm, LeavesConvolutionsThatOthersRead) {
  Graph graph = MakeGraph({Conv("x", "c"), Norm("c", "y"), MakeNode("Relu", {"c"}, {"z"})}, {"y", "z"});
  EXPECT_FALSE(FoldBatchNorm(graph));
  EXPECT_EQ(graph.nodes.size(), 3u);
}

// What it gives is infinite; in a product with the weights it would be NaN.
TEST(FoldBatchNorm, LeavesAVarianceOfNothing) {
  Node norm = Norm("c", "y");
  norm.inputs[4] = "none";
  norm.Set("epsilon", 0.0f);
  Tensor none(DType::kFloat, {8});
  std::fill_n(none.MutableData<float>(), 8, 0.0f);
  Graph graph = MakeGraph({Conv("x", "c"), norm}, {"y"}, {MakeStored("none", none)});
  EXPECT_FALSE(FoldBatchNorm(graph));
}

TEST(FoldBatchNorm, LeavesTrainingAlone) {
  Node norm = Norm("c", "y");
  norm.Set("training_mode", int64_t{1});
  norm.outputs = {"y", "m", "v"};
  Graph graph = MakeGraph({Conv("x", "c"), norm}, {"y", "m"});
  EXPECT_FALSE(FoldBatchNorm(graph));
}

TEST(FoldPad, AddsZerosToTheConvolutionsOwn) {
  Graph graph = MakeGraph({MakeNode("Pad", {"x", "pads"}, {"p"}), Conv("p", "y")}, {"y"},
                          {MakeStored("pads", Tensor::FromVector<int64_t>({0, 0, 1, 2, 0, 0, 3, 4}))});
  EXPECT_TRUE(FoldPad(graph));
  ASSERT_EQ(Operators(graph), (Names{"Conv"}));
  EXPECT_EQ(graph.nodes[0].Ints("pads"), (std::vector<int64_t>{2, 3, 4, 5}));
}

TEST(FoldPad, LeavesOtherValuesOtherModesAndCropping) {
  auto kept = [](std::vector<int64_t> pads, std::vector<std::string> more, const char* mode) {
    std::vector<std::string> inputs{"x", "pads"};
    inputs.insert(inputs.end(), more.begin(), more.end());
    Graph graph =
        MakeGraph({MakeNode("Pad", inputs, {"p"}, {{"mode", std::string(mode)}}), Conv("p", "y")}, {"y"},
                  {MakeStored("pads", Tensor::FromVector<int64_t>(pads)), MakeStored("one", Tensor::Scalar(1.0f))});
    return !FoldPad(graph);
  };
  EXPECT_TRUE(kept({0, 0, 1, 1, 0, 0, 1, 1}, {"one"}, "constant"));
  EXPECT_TRUE(kept({0, 0, 1, 1, 0, 0, 1, 1}, {}, "reflect"));
  EXPECT_TRUE(kept({0, 0, -1, 1, 0, 0, 1, 1}, {}, "constant"));
  EXPECT_TRUE(kept({0, 1, 1, 1, 0, 0, 1, 1}, {}, "constant"));
}

TEST(ChannelsLast, TurnsOnlyAtTheEdgesOfARegion) {
  Graph graph =
      MakeGraph({Conv("x", "a"), MakeNode("Relu", {"a"}, {"r"}), Conv("r", "b"), MakeNode("Add", {"b", "r"}, {"s"}),
                 MakeNode("MaxPool", {"s"}, {"y"}, {{"kernel_shape", std::vector<int64_t>{2, 2}}})},
                {"y"});
  EXPECT_TRUE(MoveChannelsLast(graph));
  EXPECT_EQ(Operators(graph), (Names{"Transpose", "NhwcConv", "Relu", "NhwcConv", "Add", "NhwcMaxPool", "Transpose"}));
  EXPECT_EQ(graph.nodes.back().outputs[0], "y");
}

TEST(ChannelsLast, TakesEveryFunctionOfElementsAlong) {
  for (const char* op : {"Round", "Reciprocal", "Sin", "Sign", "Shrink"}) {
    Graph graph = MakeGraph({Conv("x", "a"), MakeNode(op, {"a"}, {"f"}), Conv("f", "y")}, {"y"});
    EXPECT_TRUE(MoveChannelsLast(graph));
    EXPECT_EQ(Operators(graph), (Names{"Transpose", "NhwcConv", op, "NhwcConv", "Transpose"}));
  }
  Graph graph = MakeGraph({Conv("x", "a"), Conv("a", "b"), MakeNode("Mean", {"a", "b"}, {"m"}), Conv("m", "y")}, {"y"});
  EXPECT_TRUE(MoveChannelsLast(graph));
  EXPECT_EQ(Operators(graph), (Names{"Transpose", "NhwcConv", "NhwcConv", "Mean", "NhwcConv", "Transpose"}));
}

TEST(ChannelsLast, LeavesFunctionsWhoseResultsAreNoImages) {
  for (const char* op : {"IsNaN", "Cast"}) {
    Node test = MakeNode(op, {"a"}, {"y"});
    if (op == std::string("Cast")) test.Set("to", int64_t{static_cast<int>(DType::kInt64)});
    Graph graph = MakeGraph({Conv("x", "a"), test}, {"y"});
    EXPECT_TRUE(MoveChannelsLast(graph));
    EXPECT_EQ(Operators(graph), (Names{"Transpose", "NhwcConv", "Transpose", op}));
  }
}

TEST(ChannelsLast, CancelsTransposesThatTheModelWrote) {
  Graph graph =
      MakeGraph({Conv("x", "a"), MakeNode("Transpose", {"a"}, {"t"}, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}}),
                 MakeNode("Neg", {"t"}, {"n"}),
                 MakeNode("Transpose", {"n"}, {"u"}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}}), Conv("u", "y")},
                {"y"});
  EXPECT_TRUE(MoveChannelsLast(graph));
  EXPECT_EQ(Operators(graph), (Names{"Transpose", "NhwcConv", "Identity", "Neg", "NhwcConv", "Transpose"}));
}

TEST(ChannelsLast, FindsTheChannelShuffle) {
  Graph graph = MakeGraph({Conv("x", "a"), MakeNode("Reshape", {"a", "five"}, {"s"}),
                           MakeNode("Transpose", {"s"}, {"t"}, {{"perm", std::vector<int64_t>{0, 2, 1, 3, 4}}}),
                           MakeNode("Reshape", {"t", "four"}, {"j"}), Conv("j", "y")},
                          {"y"},
                          {MakeStored("five", Tensor::FromVector<int64_t>({-1, 2, 4, 10, 10})),
                           MakeStored("four", Tensor::FromVector<int64_t>({-1, 8, 10, 10}))});
  EXPECT_TRUE(MoveChannelsLast(graph));
  EXPECT_EQ(Operators(graph), (Names{"Transpose", "NhwcConv", "NhwcShuffle", "NhwcConv", "Transpose"}));
}

TEST(ChannelsLast, MakesAProductAndASumWithNumbersOneStep) {
  Graph graph = MakeGraph({Conv("x", "c"), MakeNode("HardSwish", {"c"}, {"h"}), MakeNode("Mul", {"two", "h"}, {"m"}),
                           MakeNode("Add", {"m", "two"}, {"s"}), Conv("s", "y")},
                          {"y"}, {MakeStored("two", Ones({1}))});
  EXPECT_TRUE(MoveChannelsLast(graph));
  EXPECT_EQ(Operators(graph), (Names{"Transpose", "NhwcConv", "HardSwish", "NhwcAffine", "NhwcConv", "Transpose"}));
}

TEST(ChannelsLast, TakesResizingAndTransposedConvolutionsAlong) {
  Graph graph = MakeGraph(
      {Conv("x", "c"), MakeNode("Resize", {"c", "", "scales"}, {"r"}), MakeNode("ConvTranspose", {"r", "w"}, {"y"})},
      {"y"}, {MakeStored("scales", Tensor::FromVector<float>({1, 1, 2, 2}))});
  EXPECT_TRUE(MoveChannelsLast(graph));
  ASSERT_EQ(Operators(graph), (Names{"Transpose", "NhwcConv", "Resize", "NhwcConvTranspose", "Transpose"}));
  EXPECT_EQ(graph.nodes[2].Ints("axes"), (std::vector<int64_t>{0, 3, 1, 2}));
}

TEST(ChannelsLast, TurnsTheSmallerImageWhenResizingIsTheEnd) {
  auto operators = [](float scale) {
    Graph graph = MakeGraph({Conv("x", "c"), MakeNode("Resize", {"c", "", "scales"}, {"y"})}, {"y"},
                            {MakeStored("scales", Tensor::FromVector<float>({1, 1, scale, scale}))});
    EXPECT_TRUE(MoveChannelsLast(graph));
    return Operators(graph);
  };
  EXPECT_EQ(operators(2), (Names{"Transpose", "NhwcConv", "Transpose", "Resize"}));
  EXPECT_EQ(operators(0.5f), (Names{"Transpose", "NhwcConv", "Resize", "Transpose"}));
}

TEST(ChannelsLast, LeavesConvolutionsWithComputedWeights) {
  Graph graph = MakeGraph({MakeNode("Neg", {"w"}, {"v"}), MakeNode("Conv", {"x", "v"}, {"y"})}, {"y"});
  MoveChannelsLast(graph);
  EXPECT_EQ(Operators(graph), (Names{"Neg", "Conv"}));
}

TEST(FuseConv, TakesTheSumAndTheActivation) {
  Graph graph = MakeGraph({Conv("x", "a"), Conv("a", "b"), MakeNode("Add", {"a", "b"}, {"s"}),
                           MakeNode("Sigmoid", {"s"}, {"g"}), MakeNode("Mul", {"s", "g"}, {"y"})},
                          {"y"});
  MoveChannelsLast(graph);
  EXPECT_TRUE(FuseConv(graph));
  ASSERT_EQ(Operators(graph), (Names{"Transpose", "NhwcConv", "NhwcConv", "Transpose"}));
  EXPECT_FALSE(graph.nodes[2].inputs[3].empty());
  EXPECT_EQ(ActivationOf(graph.nodes[2]).kind, ActivationKind::kSilu);
}

Node OnePixelConv(const std::string& from, const std::string& to) { return MakeNode("Conv", {from, "w1"}, {to}); }

// A limit that is not given must not touch infinities.
TEST(FuseConv, TakesALimitOnOneSideAlone) {
  Graph graph = MakeGraph({Conv("x", "c"), MakeNode("Clip", {"c", "zero"}, {"y"})}, {"y"},
                          {MakeStored("zero", Tensor::Scalar(0.0f))});
  MoveChannelsLast(graph);
  EXPECT_TRUE(FuseConv(graph));
  ASSERT_EQ(Operators(graph), (Names{"Transpose", "NhwcConv", "Transpose"}));
  Activation activation = ActivationOf(graph.nodes[1]);
  EXPECT_EQ(activation.kind, ActivationKind::kClip);
  EXPECT_EQ(activation.alpha, 0.0f);
  EXPECT_EQ(activation.beta, HUGE_VALF);
}

TEST(FuseConv, TakesTheNormInFrontOfOnePixel) {
  Graph graph = MakeGraph({MakeNode("MaxPool", {"x"}, {"p"}, {{"kernel_shape", std::vector<int64_t>{2, 2}}}),
                           Conv("p", "c"), MakeNode("Concat", {"c", "c"}, {"cc"}, {{"axis", int64_t{2}}}),
                           Norm("cc", "n"), MakeNode("Relu", {"n"}, {"r"}), OnePixelConv("r", "y")},
                          {"y"}, {MakeStored("w1", Ones({5, 8, 1, 1}))});
  MoveChannelsLast(graph);
  EXPECT_TRUE(FuseConv(graph));
  ASSERT_EQ(Operators(graph), (Names{"MaxPool", "Transpose", "NhwcConv", "Concat", "NhwcConv", "Transpose"}));
  const Node& conv = graph.nodes[4];
  EXPECT_EQ(conv.inputs[0], graph.nodes[3].outputs[0]);
  EXPECT_TRUE(conv.HasInput(4) && conv.HasInput(5));
  EXPECT_EQ(conv.Floats("before")[0], static_cast<float>(ActivationKind::kRelu));
  EXPECT_FALSE(FuseConv(graph)) << "there is no more to take";
  EXPECT_TRUE(graph.nodes[4].HasInput(5));
}

TEST(FuseConv, LeavesNormsThatOthersReadOrThatAreReadOften) {
  auto affines = [](std::vector<Node> after, std::vector<std::string> outputs) {
    std::vector<Node> nodes{Conv("x", "c"), MakeNode("Concat", {"c", "c"}, {"cc"}, {{"axis", int64_t{2}}}),
                            Norm("cc", "n")};
    nodes.insert(nodes.end(), after.begin(), after.end());
    Graph graph = MakeGraph(nodes, outputs, {MakeStored("w1", Ones({8, 8, 1, 1}))});
    MoveChannelsLast(graph);
    FuseConv(graph);
    Names names = Operators(graph);
    return std::count(names.begin(), names.end(), "NhwcAffine");
  };
  Node padded = OnePixelConv("n", "y"), strided = OnePixelConv("n", "y");
  padded.Set("pads", kOnePixel);
  strided.Set("strides", std::vector<int64_t>{2, 2});
  EXPECT_EQ(affines({OnePixelConv("n", "y")}, {"y"}), 0);
  EXPECT_EQ(affines({Conv("n", "y")}, {"y"}), 1);
  EXPECT_EQ(affines({padded}, {"y"}), 1);
  EXPECT_EQ(affines({strided}, {"y"}), 1);
  EXPECT_EQ(affines({OnePixelConv("n", "y")}, {"y", "n"}), 1);
  EXPECT_EQ(affines({OnePixelConv("n", "y"), MakeNode("Sigmoid", {"n"}, {"z"})}, {"y", "z"}), 1);
  EXPECT_EQ(affines({OnePixelConv("n", "a"), MakeNode("Add", {"a", "n"}, {"y"})}, {"y"}), 1);
}

TEST(FuseConv, LeavesSumsThatStretch) {
  Graph graph = MakeGraph(
      {Conv("x", "a"), MakeNode("GlobalAveragePool", {"x"}, {"m"}), MakeNode("Add", {"a", "m"}, {"y"})}, {"y"});
  MoveChannelsLast(graph);
  FuseConv(graph);
  Names names = Operators(graph);
  EXPECT_EQ(std::count(names.begin(), names.end(), "Add"), 1);
}

// A vision transformer's tokens: the patches exist in both layouts, what is added to them in one only.
TEST(MoveChannelsLast, LeavesSumsAloneThatWouldNeedTranspositions) {
  Tensor shape(DType::kInt64, {3});
  int64_t sizes[] = {0, 8, 100};
  std::copy_n(sizes, 3, shape.MutableData<int64_t>());
  Node turn = MakeNode("Transpose", {"flat"}, {"tokens"}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  Graph graph = MakeGraph({Conv("x", "c"), MakeNode("Reshape", {"c", "shape"}, {"flat"}), turn,
                           MakeNode("MatMul", {"tokens", "square"}, {"p"}), MakeNode("Add", {"tokens", "p"}, {"sum"}),
                           MakeNode("MatMul", {"sum", "square"}, {"q"}), MakeNode("Add", {"sum", "q"}, {"y"})},
                          {"y"}, {MakeStored("shape", shape), MakeStored("square", Ones({8, 8}))});
  EXPECT_TRUE(MoveChannelsLast(graph));
  // The image in and out of the convolution's layout, and the model's own.
  EXPECT_EQ(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op_type == "Transpose"; }), 3);
}

}  // namespace
}  // namespace ferry

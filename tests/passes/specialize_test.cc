// Bodies and branches: constants given to bodies, branches that shapes decide, and what follows from both.
#include <gtest/gtest.h>

#include "ops/evaluate.h"
#include "passes/fold_known.h"
#include "passes/inline_branches.h"
#include "passes/share_constants.h"
#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using testing::Count;
using testing::Ints;
using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

Tensor Filled(Shape shape, float value) {
  Tensor tensor(DType::kFloat, std::move(shape));
  std::fill_n(tensor.MutableData<float>(), tensor.size(), value);
  return tensor;
}

std::shared_ptr<Graph> Body(std::vector<Node> nodes, std::vector<std::string> outputs,
                            std::vector<StoredTensor> initializers = {}) {
  auto body = std::make_shared<Graph>();
  body->name = "body";
  body->nodes = std::move(nodes);
  body->initializers = std::move(initializers);
  for (const std::string& name : outputs) body->outputs.push_back(MakeInfo(name));
  return body;
}

Node Branch(const std::string& condition, std::vector<std::string> outputs, std::shared_ptr<Graph> yes,
            std::shared_ptr<Graph> no) {
  return MakeNode("If", {condition}, std::move(outputs),
                  {Attribute("then_branch", std::move(yes)), Attribute("else_branch", std::move(no))});
}

StoredTensor Bool(const std::string& name, bool value) {
  Tensor tensor(DType::kBool, {});
  *tensor.MutableData<bool>() = value;
  return MakeStored(name, tensor);
}

GraphFacts FactsFor(const Graph& graph, FactsByName known = {}) { return InferGraph(graph, known); }

FactsByName InputOf(Shape shape) {
  FactsByName known;
  known["x"].type = Type::Tensor(DType::kFloat, ToSymbolic(shape));
  return known;
}

// x, convolved and limited inside the branch; the weights belong to the graph around it.
Model ConvolutionInABranch(bool by_size) {
  std::vector<Node> nodes;
  std::vector<StoredTensor> constants = {MakeStored("w", Filled({4, 4, 3}, 0.5f)), Ints("three", {3})};
  if (by_size) {
    nodes = {MakeNode("Shape", {"x"}, {"sizes"}), MakeNode("Size", {"sizes"}, {"rank"}),
             MakeNode("Squeeze", {"three"}, {"wanted"}), MakeNode("Equal", {"rank", "wanted"}, {"condition"})};
  } else {
    nodes = {MakeNode("ReduceMax", {"x"}, {"largest"}, {{"keepdims", int64_t{0}}}),
             MakeNode("Cast", {"largest"}, {"condition"}, {{"to", int64_t{9}}})};
  }
  nodes.push_back(Branch("condition", {"y"},
                         Body({MakeNode("Conv", {"x", "w"}, {"c"}), MakeNode("Relu", {"c"}, {"made"})}, {"made"}),
                         Body({MakeNode("Neg", {"x"}, {"made"})}, {"made"})));
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 4, Dim::Named("t")})}, nodes, {MakeInfo("y")},
                   constants);
}

std::vector<Value> Evaluate(const Graph& graph, const Value& x) {
  std::vector<Value> inputs = {x};
  return EvaluateGraph(graph, inputs, RunServices{});
}

void ExpectSame(const std::vector<Value>& expected, const std::vector<Value>& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t n = 0; n < expected.size(); ++n) {
    const Tensor &a = expected[n].tensor(), &b = got[n].tensor();
    ASSERT_TRUE(a.shape() == b.shape());
    for (int64_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a.Data<float>()[i], b.Data<float>()[i], 1e-5f) << i;
  }
}

TEST(ShareConstants, GivesBodiesTheWeightsTheyRead) {
  Graph graph = ConvolutionInABranch(false).graph;
  EXPECT_TRUE(ShareConstants(graph));
  const Graph& body = *graph.nodes.back().Subgraph("then_branch");
  const StoredTensor* shared = body.FindInitializer("w");
  ASSERT_NE(shared, nullptr);
  EXPECT_EQ(shared->tensor.raw(), graph.FindInitializer("w")->tensor.raw());
  EXPECT_TRUE(graph.nodes.back().Subgraph("else_branch")->initializers.empty());
  EXPECT_FALSE(ShareConstants(graph));
}

TEST(ShareConstants, LeavesWhatACallerMayOverride) {
  Model model = ConvolutionInABranch(false);
  model.graph.inputs.push_back(MakeInfo("w", DType::kFloat, {4, 4, 3}));
  EXPECT_FALSE(ShareConstants(model.graph));
}

TEST(InlineBranches, TakesTheBranchThatShapesDecide) {
  Model model = ConvolutionInABranch(true);
  Graph graph = CopyDeep(model.graph);
  EXPECT_TRUE(InlineBranches(graph, FactsFor(graph, InputOf({1, 4, 9}))));
  EXPECT_EQ(Count(graph, "If"), 0);
  EXPECT_EQ(Count(graph, "Conv"), 1);
  Value x = Filled({1, 4, 9}, 0.25f);
  ExpectSame(Evaluate(model.graph, x), Evaluate(graph, x));
}

TEST(InlineBranches, LeavesBranchesThatValuesDecide) {
  Graph graph = ConvolutionInABranch(false).graph;
  EXPECT_FALSE(InlineBranches(graph, FactsFor(graph, InputOf({1, 4, 9}))));
  EXPECT_EQ(Count(graph, "If"), 1);
}

// Sibling bodies use one name for different values, a branch answers with a constant of its own and with a value from
// outside, and a body inside a body captures what was renamed.
TEST(InlineBranches, KeepsNamesApart) {
  auto inner = Branch("unknown", {"same"}, Body({MakeNode("Add", {"t", "t"}, {"u"})}, {"u"}),
                      Body({MakeNode("Neg", {"t"}, {"u"})}, {"u"}));
  auto first = Body({MakeNode("Neg", {"x"}, {"t"}), inner}, {"same", "x"});
  auto second = Body({MakeNode("Exp", {"x"}, {"t"})}, {"t", "k"}, {MakeStored("k", Filled({2}, 3.0f))});
  auto untaken = Body({MakeNode("Abs", {"x"}, {"t"})}, {"t", "t"});
  Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {2}), MakeInfo("unknown", DType::kBool, {})},
                {Branch("yes", {"a", "b"}, first, untaken), Branch("no", {"c", "d"}, untaken, second)},
                {MakeInfo("a"), MakeInfo("b"), MakeInfo("c"), MakeInfo("d")}, {Bool("yes", true), Bool("no", false)});
  Graph graph = CopyDeep(model.graph);
  EXPECT_TRUE(InlineBranches(graph, FactsFor(graph)));
  EXPECT_EQ(Count(graph, "If"), 1);
  for (bool condition : {false, true}) {
    std::vector<Value> inputs = {Filled({2}, 0.5f), Bool("", condition).tensor};
    ExpectSame(EvaluateGraph(model.graph, inputs, RunServices{}), EvaluateGraph(graph, inputs, RunServices{}));
  }
}

// A body inside the branch makes a value of the name that the branch's own value would get.
TEST(InlineBranches, LeavesNamesThatBodiesUse) {
  auto inner =
      Branch("unknown", {"made"}, Body({MakeNode("Neg", {"t"}, {"y"}), MakeNode("Add", {"y", "t"}, {"z"})}, {"z"}),
             Body({MakeNode("Abs", {"t"}, {"z"})}, {"z"}));
  auto taken = Body({MakeNode("Exp", {"x"}, {"t"}), inner}, {"t", "made"});
  auto untaken = Body({MakeNode("Abs", {"x"}, {"t"})}, {"t", "t"});
  Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {2}), MakeInfo("unknown", DType::kBool, {})},
                {Branch("yes", {"y", "b"}, taken, untaken)}, {MakeInfo("y"), MakeInfo("b")}, {Bool("yes", true)});
  Graph graph = CopyDeep(model.graph);
  EXPECT_TRUE(InlineBranches(graph, FactsFor(graph)));
  for (bool condition : {false, true}) {
    std::vector<Value> inputs = {Filled({2}, 0.5f), Bool("", condition).tensor};
    ExpectSame(EvaluateGraph(model.graph, inputs, RunServices{}), EvaluateGraph(graph, inputs, RunServices{}));
  }
}

TEST(FoldKnown, MakesConstantsOfSizes) {
  Graph graph =
      MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 4})},
                {MakeNode("Shape", {"x"}, {"sizes"}), MakeNode("Reshape", {"x", "sizes"}, {"y"})}, {MakeInfo("y")})
          .graph;
  EXPECT_FALSE(FoldKnown(graph, FactsFor(graph)));
  EXPECT_TRUE(FoldKnown(graph, FactsFor(graph, InputOf({3, 4}))));
  EXPECT_EQ(Count(graph, "Shape"), 0);
  ASSERT_NE(graph.FindInitializer("sizes"), nullptr);
  EXPECT_EQ(graph.FindInitializer("sizes")->tensor.Data<int64_t>()[0], 3);
}

// Of the halves only one is known.
TEST(FoldKnown, WhatIsMadeOfWeightsInFewBitsStaysThat) {
  Graph graph = MakeModel({},
                          {MakeNode("DequantizeLinear", {"codes", "scale"}, {"weights"}),
                           MakeNode("Split", {"weights"}, {"a", "b"}, {{"num_outputs", int64_t{2}}}),
                           MakeNode("Neg", {"a"}, {"y"})},
                          {MakeInfo("y"), MakeInfo("b")},
                          {MakeStored("codes", Tensor::FromVector<int8_t>({1, 2})), testing::Scalar("scale", 0.5f)})
                    .graph;
  GraphFacts facts = FactsFor(graph);
  for (const char* name : {"weights", "a", "y"}) facts.values[name] = FactsOf(Tensor::FromVector<float>({1}));
  facts.values["b"] = {};
  EXPECT_FALSE(FoldKnown(graph, facts, true));
  EXPECT_EQ(graph.nodes.size(), 3u);
}

TEST(Specialize, OptimisesWhatWasInABranch) {
  for (bool by_size : {false, true}) {
    Model model = ConvolutionInABranch(by_size);
    Graph optimized = CopyDeep(model.graph);
    Optimize(optimized);
    FactsByName known = InputOf({2, 4, 9});
    GraphFacts facts = FactsFor(optimized, known);
    std::shared_ptr<Graph> special = Specialize(optimized, known, facts);
    ASSERT_NE(special, nullptr);
    const Graph& around = by_size ? *special : *special->nodes.back().Subgraph("then_branch");
    EXPECT_EQ(Count(around, "NhwcConv"), 1);
    EXPECT_EQ(Count(around, "Relu"), 0);
    Value x = Filled({2, 4, 9}, 0.25f);
    ExpectSame(Evaluate(model.graph, x), Evaluate(*special, x));
  }
}

TEST(Specialize, LeavesGraphsWithoutBranchesAndConvolutions) {
  Graph graph =
      MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n")})}, {MakeNode("Neg", {"x"}, {"y"})}, {MakeInfo("y")})
          .graph;
  FactsByName known = InputOf({3});
  GraphFacts facts = FactsFor(graph, known);
  EXPECT_EQ(Specialize(graph, known, facts), nullptr);
}

}  // namespace
}  // namespace ferry

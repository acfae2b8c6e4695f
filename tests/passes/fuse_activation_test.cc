#include "passes/fuse_activation.h"

#include <chrono>

#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using namespace testing;  // NOLINT

Model Around(std::vector<Node> nodes, std::vector<StoredTensor> constants) {
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim(3), Dim(7)})}, std::move(nodes), {MakeInfo("y")},
                   std::move(constants));
}

TEST(FuseActivation, GeluWithErf) {
  Random random(1);
  for (bool divides : {false, true}) {
    Model model = Around({MakeNode(divides ? "Div" : "Mul", {"x", "root"}, {"scaled"}),
                          MakeNode("Erf", {"scaled"}, {"e"}), MakeNode("Add", {"e", "one"}, {"sum"}),
                          MakeNode("Mul", {"x", "sum"}, {"product"}), MakeNode("Mul", {"product", "half"}, {"y"})},
                         {Scalar("root", divides ? 1.41421356f : 0.70710678f), Scalar("one", 1), Scalar("half", 0.5f)});
    Graph graph = HoldAgainstOptimized(model, {random.Numbers<float>({3, 7})});
    ASSERT_EQ(graph.nodes.size(), 1u);
    EXPECT_EQ(graph.nodes[0].op_type, "Gelu");
  }
}

TEST(FuseActivation, GeluWithTanh) {
  Random random(2);
  Model model = Around({MakeNode("Mul", {"x", "half"}, {"halved"}), MakeNode("Pow", {"x", "three"}, {"cube"}),
                        MakeNode("Mul", {"cube", "c"}, {"term"}), MakeNode("Add", {"x", "term"}, {"sum"}),
                        MakeNode("Mul", {"sum", "root"}, {"inner"}), MakeNode("Tanh", {"inner"}, {"t"}),
                        MakeNode("Add", {"t", "one"}, {"plus"}), MakeNode("Mul", {"halved", "plus"}, {"y"})},
                       {Scalar("half", 0.5f), Scalar("three", 3), Scalar("c", 0.044715f), Scalar("root", 0.79788456f),
                        Scalar("one", 1)});
  Graph graph = HoldAgainstOptimized(model, {random.Numbers<float>({3, 7})});
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].String("approximate", ""), "tanh");
}

TEST(FuseActivation, SiluWithAndWithoutAFactor) {
  Random random(3);
  Model plain = Around({MakeNode("Sigmoid", {"x"}, {"s"}), MakeNode("Mul", {"x", "s"}, {"y"})}, {});
  EXPECT_EQ(Count(HoldAgainstOptimized(plain, {random.Numbers<float>({3, 7})}), "Swish"), 1);
  Model quick = Around(
      {MakeNode("Mul", {"x", "a"}, {"ax"}), MakeNode("Sigmoid", {"ax"}, {"s"}), MakeNode("Mul", {"s", "x"}, {"y"})},
      {Scalar("a", 1.702f)});
  EXPECT_EQ(Count(HoldAgainstOptimized(quick, {random.Numbers<float>({3, 7})}), "Swish"), 1);
}

TEST(FuseActivation, HardSwish) {
  Random random(5);
  for (bool gate_first : {false, true}) {
    std::vector<Node> nodes = {MakeNode("Add", {"x", "three"}, {"sum"}),
                               MakeNode("Clip", {"sum", "zero", "six"}, {"c"})};
    if (gate_first) {
      nodes.push_back(MakeNode("Div", {"c", "six"}, {"gate"}));
      nodes.push_back(MakeNode("Mul", {"x", "gate"}, {"y"}));
    } else {
      nodes.push_back(MakeNode("Mul", {"x", "c"}, {"product"}));
      nodes.push_back(MakeNode("Div", {"product", "six"}, {"y"}));
    }
    Model model = Around(nodes, {Scalar("three", 3), Scalar("zero", 0), Scalar("six", 6)});
    Graph graph = HoldAgainstOptimized(model, {random.Numbers<float>({3, 7})});
    ASSERT_EQ(graph.nodes.size(), 1u);
    EXPECT_EQ(graph.nodes[0].op_type, "HardSwish");
  }
}

TEST(FuseActivation, LeavesOtherConstantsAlone) {
  Random random(4);
  Model model = Around({MakeNode("Mul", {"x", "root"}, {"scaled"}), MakeNode("Erf", {"scaled"}, {"e"}),
                        MakeNode("Add", {"e", "one"}, {"sum"}), MakeNode("Mul", {"x", "sum"}, {"product"}),
                        MakeNode("Mul", {"product", "half"}, {"y"})},
                       {Scalar("root", 0.75f), Scalar("one", 1), Scalar("half", 0.5f)});
  EXPECT_EQ(Count(HoldAgainstOptimized(model, {random.Numbers<float>({3, 7})}), "Gelu"), 0);
}

// Constants of one axis make a vector of a scalar.
TEST(FuseActivation, LeavesScalars) {
  Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {})},
      {MakeNode("Sigmoid", {"x"}, {"s"}), MakeNode("Mul", {"x", "s"}, {"p"}), MakeNode("Mul", {"p", "one"}, {"y"})},
      {MakeInfo("y")}, {MakeStored("one", Tensor::FromVector(std::vector<float>{1.0f}))});
  HoldAgainstOptimized(model, {Tensor::Scalar(0.7f)});
}

TEST(FuseActivation, LooksAtAFewFactors) {
  std::vector<Node> nodes;
  constexpr int kMany = 20'000;
  for (int i = 0; i < kMany; ++i)
    nodes.push_back(MakeNode("Mul", {i == 0 ? "x" : Cat("v", i - 1), "c"}, {Cat("v", i)}));
  nodes.push_back(MakeNode("Tanh", {Cat("v", kMany - 1)}, {"y"}));
  Model model = Around(std::move(nodes), {Scalar("c", 1.0001f)});
  const auto start = std::chrono::steady_clock::now();
  GraphFacts facts;
  EXPECT_FALSE(FuseActivation(model.graph, facts));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));  // minutes when all are walked through
}

}  // namespace
}  // namespace ferry

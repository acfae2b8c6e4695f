#include "passes/expand_composed.h"

#include <gtest/gtest.h>

#include "ops/support/compose.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

Node Microsoft(std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs,
               std::vector<Attribute> attributes = {}) {
  Node node = MakeNode(std::move(op), std::move(inputs), std::move(outputs), std::move(attributes));
  node.domain = "com.microsoft";
  return node;
}

std::vector<std::string> Operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes)
    names.push_back(node.domain.empty() ? node.op_type : Cat(node.domain, ".", node.op_type));
  return names;
}

TEST(ExpandComposed, PutsTheStandardsOperatorsInPlace) {
  Model model = MakeModel({MakeInfo("a", DType::kFloat, {2, 4}), MakeInfo("b", DType::kFloat, {4})},
                          {Microsoft("BiasGelu", {"a", "b"}, {"y"})}, {MakeInfo("y")});
  ExpandComposed(model);
  EXPECT_EQ(Operators(model.graph), (std::vector<std::string>{"Add", "Gelu"}));
  EXPECT_EQ(model.graph.nodes[1].outputs[0], "y");
  EXPECT_EQ(model.graph.nodes[0].outputs[0], model.graph.nodes[1].inputs[0]);
}

TEST(ExpandComposed, NamesStayApart) {
  std::vector<ValueInfo> inputs{MakeInfo("a", DType::kFloat, {2, 4}), MakeInfo("b", DType::kFloat, {4})};
  Model model = MakeModel(inputs, {Microsoft("BiasGelu", {"a", "b"}, {"x"}), Microsoft("BiasGelu", {"x", "b"}, {"y"})},
                          {MakeInfo("y")});
  for (Node& node : model.graph.nodes) node.name = "same";
  ExpandComposed(model);
  ASSERT_EQ(model.graph.nodes.size(), 4u);
  EXPECT_NE(model.graph.nodes[0].outputs[0], model.graph.nodes[2].outputs[0]);
}

TEST(ExpandComposed, LeavesWhatIsNotKnownEnough) {
  Model model = MakeModel({MakeInfo("a"), MakeInfo("b")},
                          {Microsoft("FusedMatMul", {"a", "b"}, {"y"}, {{"transA", int64_t{1}}})}, {MakeInfo("y")});
  ExpandComposed(model);
  EXPECT_EQ(Operators(model.graph), (std::vector<std::string>{"com.microsoft.FusedMatMul"}));
  EXPECT_TRUE(model.graph.initializers.empty());
}

TEST(ExpandComposed, AValueThatCallersMayChangeIsNoConstant) {
  Node node =
      Microsoft("ConvTransposeWithDynamicPads", {"x", "w", "pads"}, {"y"}, {{"kernel_shape", std::vector<int64_t>{1}}});
  auto make = [&](bool overridable) {
    std::vector<ValueInfo> inputs{MakeInfo("x", DType::kFloat, {1, 1, 4}), MakeInfo("w", DType::kFloat, {1, 1, 1})};
    if (overridable) inputs.push_back(MakeInfo("pads", DType::kInt64, {2}));
    Model model = MakeModel(inputs, {node}, {MakeInfo("y")},
                            {MakeStored("pads", Tensor::FromVector(std::vector<int64_t>{1, 0}))});
    ExpandComposed(model);
    return Operators(model.graph)[0];
  };
  EXPECT_EQ(make(false), "ConvTranspose");
  EXPECT_EQ(make(true), "com.microsoft.ConvTransposeWithDynamicPads");
}

TEST(ExpandComposed, LeavesNodesWithTooFewInputs) {
  Model model =
      MakeModel({MakeInfo("a", DType::kFloat, {2, 4})}, {Microsoft("BiasGelu", {"a"}, {"y"})}, {MakeInfo("y")});
  ExpandComposed(model);
  EXPECT_EQ(Operators(model.graph), (std::vector<std::string>{"com.microsoft.BiasGelu"}));
}

TEST(ExpandComposed, ReachesBodies) {
  auto body = std::make_shared<Graph>();
  body->nodes = {Microsoft("Gelu", {"a"}, {"inner"})};
  body->outputs = {MakeInfo("inner")};
  Model model =
      MakeModel({MakeInfo("c", DType::kBool, {}), MakeInfo("a", DType::kFloat, {2})},
                {MakeNode("If", {"c"}, {"y"}, {{"then_branch", body}, {"else_branch", body}})}, {MakeInfo("y")});
  ExpandComposed(model);
  EXPECT_EQ(Operators(*body), (std::vector<std::string>{"Gelu"}));
}

TEST(ExpandComposed, OutputsInTheMiddleKeepTheirNames) {
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {2, 4}), MakeInfo("g", DType::kFloat, {4})},
                          {Microsoft("SkipLayerNormalization", {"x", "x", "g"}, {"y", "", "", "sum"})},
                          {MakeInfo("y"), MakeInfo("sum")});
  ExpandComposed(model);
  EXPECT_EQ(Operators(model.graph), (std::vector<std::string>{"Add", "LayerNormalization"}));
  EXPECT_EQ(model.graph.nodes[0].outputs[0], "sum");
}

}  // namespace
}  // namespace ferry

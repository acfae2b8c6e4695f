// Models made to exhaust a checker: all must be answered soon, without deep recursion.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "onnx/checker/checker.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

constexpr int kMany = 20000;

std::string Name(int i) { return "v" + std::to_string(i); }

Model Chain(int length) {
  std::vector<Node> nodes;
  for (int i = 0; i < length; ++i) nodes.push_back(MakeNode("Relu", {Name(i)}, {Name(i + 1)}));
  Model model = MakeModel({MakeInfo(Name(0), DType::kFloat, {2})}, std::move(nodes),
                          {MakeInfo(Name(length), DType::kFloat, {2})});
  model.ir_version = 14;
  return model;
}

std::set<std::string_view> Rules(const std::vector<Problem>& problems) {
  std::set<std::string_view> rules;
  for (const Problem& problem : problems) rules.insert(problem.rule);
  return rules;
}

TEST(CheckerHostile, LongChain) { EXPECT_TRUE(CheckModel(Chain(kMany)).empty()); }

TEST(CheckerHostile, LongChainBackwards) {
  Model model = Chain(kMany);
  std::reverse(model.graph.nodes.begin(), model.graph.nodes.end());
  std::vector<Problem> problems = CheckModel(model);
  EXPECT_EQ(problems.size(), CheckOptions().most_problems);
  EXPECT_EQ(problems.back().rule, "check.too-many");
  EXPECT_EQ(Rules(problems), (std::set<std::string_view>{"graph.order", "check.too-many"}));
}

TEST(CheckerHostile, LongCycle) {
  Model model = Chain(kMany);
  model.graph.nodes[0].inputs[0] = Name(kMany);
  std::vector<Problem> problems = CheckModel(model);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].rule, "graph.cycle");
  EXPECT_NE(problems[0].message.find("20000 nodes"), std::string::npos);
}

TEST(CheckerHostile, DeepNesting) {
  auto body = std::make_shared<Graph>();
  body->name = "innermost";
  body->nodes = {MakeNode("Relu", {"x"}, {"r0"})};
  body->outputs = {MakeInfo("r0")};
  for (int depth = 1; depth < 150; ++depth) {
    auto outer = std::make_shared<Graph>();
    std::string out = "r" + std::to_string(depth);
    outer->name = "body";
    outer->nodes = {MakeNode("If", {"c"}, {out}, {Attribute("then_branch", body)})};
    outer->outputs = {MakeInfo(out)};
    body = outer;
  }
  Model model = MakeModel({MakeInfo("c", DType::kBool, {}), MakeInfo("x", DType::kFloat, {2})}, body->nodes,
                          {MakeInfo("r149", DType::kFloat, {2})});
  EXPECT_TRUE(Rules(CheckModel(model)).count("graph.nesting"));
}

TEST(CheckerHostile, ManyProblemsAreCutShort) {
  Model model = Chain(kMany);
  for (Node& node : model.graph.nodes) node.op_type = "Nonsense";
  EXPECT_EQ(CheckModel(model, {.most_problems = 10}).size(), 10u);
}

TEST(CheckerHostile, ManyFunctionsInARow) {
  Model model = Chain(1);
  model.opsets.push_back({"f", 1, {}});
  for (int i = 0; i < 5000; ++i) {
    Function function;
    function.name = Name(i);
    function.domain = "f";
    function.inputs = {"a"};
    function.outputs = {"b"};
    function.opsets = {{"", 28, {}}, {"f", 1, {}}};
    function.nodes = {MakeNode(Name(i + 1), {"a"}, {"b"})};
    function.nodes[0].domain = "f";
    model.functions.push_back(function);
  }
  model.functions.back().nodes[0].op_type = Name(0);
  EXPECT_EQ(Rules(CheckModel(model)), (std::set<std::string_view>{"function.recursion"}));
}

TEST(CheckerHostile, NamesAreShownSafely) {
  Model model = Chain(1);
  model.graph.nodes[0].inputs[0] = std::string("\x1b[31m") + std::string(10000, 'x');
  std::string text = ToText(CheckModel(model)[0]);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LT(text.size(), 2000u);
}

}  // namespace
}  // namespace ferry

#include "graph/sort_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

std::string Order(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.outputs[0]);
  return Join(names, " ");
}

Graph Of(std::vector<Node> nodes) { return MakeModel({MakeInfo("x")}, std::move(nodes), {MakeInfo("y")}).graph; }

std::string ErrorOf(Graph graph) {
  try {
    SortNodes(graph);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    return error.message();
  }
  return "";
}

TEST(SortNodes, LeavesAloneWhatIsInOrder) {
  Graph graph = Of({MakeNode("Abs", {"x"}, {"b"}), MakeNode("Neg", {"x"}, {"a"}), MakeNode("Add", {"b", "a"}, {"y"})});
  EXPECT_FALSE(SortNodes(graph));
  EXPECT_EQ(Order(graph), "b a y");
}

TEST(SortNodes, MovesWhatStandsInFrontOfWhatItReads) {
  Graph graph = Of({MakeNode("Add", {"b", "a"}, {"y"}), MakeNode("Neg", {"b"}, {"a"}), MakeNode("Sin", {"x"}, {"s"}),
                    MakeNode("Abs", {"x"}, {"b"})});
  EXPECT_TRUE(SortNodes(graph));
  EXPECT_EQ(Order(graph), "b a y s");
}

TEST(SortNodes, KnowsWhatBodiesReadAndSortsThemToo) {
  auto body = std::make_shared<Graph>();
  body->nodes = {MakeNode("Abs", {"inner"}, {"result"}), MakeNode("Neg", {"late"}, {"inner"})};
  body->outputs = {MakeInfo("result")};
  Graph graph = Of({MakeNode("If", {"x"}, {"y"}, {{"then_branch", body}}), MakeNode("Sin", {"x"}, {"late"})});
  EXPECT_TRUE(SortNodes(graph));
  EXPECT_EQ(Order(graph), "late y");
  EXPECT_EQ(Order(*body), "inner result");
}

TEST(SortNodes, AnInputIsThereBeforeANodeOfTheSameName) {
  Graph graph = Of({MakeNode("Abs", {"x"}, {"y"}), MakeNode("Neg", {"y"}, {"x"})});
  EXPECT_FALSE(SortNodes(graph));
}

TEST(SortNodes, NamesTheNodesOfACycle) {
  EXPECT_THAT(ErrorOf(Of({MakeNode("Add", {"x", "y"}, {"y"})})), HasSubstr("node 'Add_y' (Add) reads its own output"));
  std::string message = ErrorOf(Of({MakeNode("Sin", {"x"}, {"s"}), MakeNode("Add", {"s", "b"}, {"a"}),
                                    MakeNode("Neg", {"a"}, {"b"}), MakeNode("Abs", {"b"}, {"y"})}));
  EXPECT_THAT(message, HasSubstr("2 nodes"));
  EXPECT_THAT(message, HasSubstr("'Add_a' (Add), node 'Neg_b' (Neg)"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("Sin")));
}

TEST(SortNodes, ALongChainBackwards) {
  std::vector<Node> nodes;
  constexpr int kLength = 100'000;
  for (int i = kLength; i-- > 0;) nodes.push_back(MakeNode("Abs", {i == 0 ? "x" : Cat("v", i - 1)}, {Cat("v", i)}));
  Graph graph = Of(std::move(nodes));
  EXPECT_TRUE(SortNodes(graph));
  EXPECT_EQ(graph.nodes.front().outputs[0], "v0");
  EXPECT_EQ(graph.nodes.back().outputs[0], Cat("v", kLength - 1));
}

TEST(SortNodes, FunctionsAreSorted) {
  Model model = MakeModel({MakeInfo("x")}, {}, {});
  Function function;
  function.inputs = {"p"};
  function.nodes = {MakeNode("Abs", {"q"}, {"r"}), MakeNode("Neg", {"p"}, {"q"})};
  model.functions = {function};
  EXPECT_TRUE(SortNodes(model));
  EXPECT_EQ(model.functions[0].nodes[0].op_type, "Neg");
}

}  // namespace
}  // namespace ferry

// What passes lean on: who makes and reads a value, also inside bodies, and nodes that stay where they are.
#include "graph/editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/scopes.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> OutputsOf(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.outputs[0]);
  return names;
}

std::shared_ptr<Graph> Body(std::vector<Node> nodes, const std::string& output) {
  return std::make_shared<Graph>(MakeModel({}, std::move(nodes), {MakeInfo(output)}).graph);
}

// An If whose branch has an If inside.
Node NestedBranches() {
  auto inner = Body({MakeNode("Add", {"outside", "from_branch"}, {"inner"})}, "inner");
  auto leaf = Body({}, "leaf_outside");
  auto branch = Body({MakeNode("Neg", {"also_outside"}, {"from_branch"}),
                      MakeNode("If", {"also_outside"}, {"chosen"}, {{"then_branch", inner}, {"else_branch", leaf}}),
                      MakeNode("Neg", {"later"}, {"again"}), MakeNode("Neg", {"again"}, {"later"})},
                     "chosen");
  return MakeNode("If", {"condition"}, {"y"}, {{"then_branch", branch}});
}

TEST(CapturedNames, AreWhatBodiesReadAndDoNotMake) {
  EXPECT_THAT(CapturedNames(NestedBranches()), ElementsAre("also_outside", "outside", "leaf_outside", "later"));
  EXPECT_THAT(CapturedNames(MakeNode("Neg", {"x"}, {"y"})), IsEmpty());
}

TEST(GraphEditor, CountsWhatBodiesRead) {
  Graph graph =
      MakeModel({MakeInfo("x")}, {MakeNode("Neg", {"x"}, {"outside"}), NestedBranches()}, {MakeInfo("y")}).graph;
  GraphEditor editor(graph);
  EXPECT_EQ(editor.Uses("outside"), 1u);
  EXPECT_THAT(editor.Readers("outside"), IsEmpty());
  EXPECT_EQ(editor.OnlyReader("condition"), 1);
  EXPECT_EQ(editor.FreshName("inner"), "inner_1") << "bodies have taken the name";
  editor.Remove(1);
  EXPECT_EQ(editor.Uses("outside"), 0u);
}

TEST(GraphEditor, PutsInsertedNodesWhereTheyBelong) {
  Graph graph =
      MakeModel({MakeInfo("x")}, {MakeNode("Neg", {"x"}, {"a"}), MakeNode("Neg", {"a"}, {"b"})}, {MakeInfo("b")}).graph;
  GraphEditor editor(graph);
  const Node& first = editor.node(0);
  editor.InsertBefore(2, MakeNode("Neg", {"b"}, {"end"}));
  editor.InsertBefore(1, MakeNode("Neg", {"a"}, {"m1"}));
  editor.InsertBefore(1, MakeNode("Neg", {"m1"}, {"m2"}));
  EXPECT_EQ(&first, &editor.node(0));
  EXPECT_EQ(editor.size(), 5u);
  EXPECT_EQ(editor.node(3).outputs[0], "m1");
  EXPECT_EQ(editor.Producer("m2"), 4);
  EXPECT_EQ(editor.OnlyReader("m1"), 4);
  editor.Replace(4, MakeNode("Abs", {"m1"}, {"m2"}));
  editor.Replace(1, MakeNode("Add", {"m2", "a"}, {"b"}));
  editor.Remove(2);
  EXPECT_TRUE(editor.Finish());
  EXPECT_THAT(OutputsOf(graph), ElementsAre("a", "m1", "m2", "b"));
  EXPECT_EQ(graph.nodes[2].op_type, "Abs");
}

TEST(GraphEditor, TakesNodesToPutThemElsewhere) {
  Graph graph =
      MakeModel({MakeInfo("x"), MakeInfo("condition")},
                {MakeNode("Neg", {"x"}, {"outside"}), NestedBranches(), MakeNode("Abs", {"y"}, {"z"})}, {MakeInfo("z")})
          .graph;
  GraphEditor editor(graph);
  Node choice = editor.Take(1);
  EXPECT_TRUE(editor.removed(1));
  EXPECT_EQ(editor.Producer("y"), -1);
  EXPECT_EQ(editor.Uses("outside"), 0u);
  choice.outputs[0] = "z";
  editor.Replace(2, std::move(choice));
  EXPECT_EQ(editor.Uses("outside"), 1u);
  EXPECT_EQ(editor.Uses("y"), 0u);
  editor.Replace(0, editor.Take(0));
  EXPECT_FALSE(editor.removed(0));
  EXPECT_TRUE(editor.Finish());
  EXPECT_THAT(OutputsOf(graph), ElementsAre("outside", "z"));
}

TEST(GraphEditor, DropsWhatNobodyReads) {
  Graph graph =
      MakeModel({MakeInfo("x")},
                {MakeNode("Add", {"x", "w"}, {"a"}), MakeNode("Mul", {"x", "v"}, {"b"}), MakeNode("Neg", {"x"}, {"y"})},
                {MakeInfo("y")}, {MakeStored("w", Tensor::Scalar(1.0f)), MakeStored("v", Tensor::Scalar(2.0f))})
          .graph;
  GraphEditor editor(graph);
  EXPECT_FALSE(editor.Finish()) << "nothing was changed";
  EXPECT_EQ(graph.nodes.size(), 3u);
  editor.Replace(2, MakeNode("Neg", {"b"}, {"y"}));
  EXPECT_TRUE(editor.Finish());
  EXPECT_THAT(OutputsOf(graph), ElementsAre("b", "y"));
  ASSERT_EQ(graph.initializers.size(), 1u);
  EXPECT_EQ(graph.initializers[0].name, "v");
}

}  // namespace
}  // namespace ferry

#include "passes/cancel_transposes.h"

#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using testing::Count;
using testing::HoldAgainstOptimized;
using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;
using testing::Perm;

Graph Canceled(std::vector<Node> nodes, std::vector<std::string> outputs) {
  std::vector<ValueInfo> infos;
  for (const std::string& name : outputs) infos.push_back(MakeInfo(name));
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {2, 3, 4})}, std::move(nodes), infos);
  testing::Random random(5);
  HoldAgainstOptimized(model, {random.Floats({2, 3, 4})});
  Graph graph = CopyDeep(model).graph;
  CancelTransposes(graph, InferGraph(graph, {}));
  return graph;
}

TEST(CancelTransposes, ThereAndBackIsNothing) {
  Graph graph = Canceled({MakeNode("Transpose", {"x"}, {"a"}, {Perm({2, 0, 1})}),
                          MakeNode("Transpose", {"a"}, {"b"}, {Perm({1, 2, 0})}), MakeNode("Exp", {"b"}, {"y"})},
                         {"y"});
  EXPECT_EQ(Count(graph, "Transpose"), 0);
  EXPECT_EQ(graph.nodes.size(), 1u);
}

TEST(CancelTransposes, TwoBecomeOneAlsoWhenTheFirstIsNeeded) {
  Graph graph = Canceled({MakeNode("Transpose", {"x"}, {"a"}), MakeNode("Transpose", {"a"}, {"b"}, {Perm({0, 2, 1})}),
                          MakeNode("Exp", {"a"}, {"y"}), MakeNode("Exp", {"b"}, {"z"})},
                         {"y", "z"});
  ASSERT_EQ(Count(graph, "Transpose"), 2);
  EXPECT_EQ(graph.nodes[1].inputs[0], "x");
  EXPECT_EQ(graph.nodes[1].Ints("perm"), (std::vector<int64_t>{2, 0, 1}));
}

TEST(CancelTransposes, DropsIdentityAndCastsToTheSameType) {
  Graph graph = Canceled({MakeNode("Identity", {"x"}, {"a"}), MakeNode("Cast", {"a"}, {"b"}, {{"to", int64_t{1}}}),
                          MakeNode("Add", {"b", "a"}, {"y"})},
                         {"y"});
  EXPECT_EQ(graph.nodes.size(), 1u);
}

TEST(CancelTransposes, KeepsTheNamesOfResults) {
  Graph graph = Canceled({MakeNode("Exp", {"x"}, {"a"}), MakeNode("Identity", {"a"}, {"y"})}, {"a", "y"});
  EXPECT_EQ(Count(graph, "Identity"), 1);
}

}  // namespace
}  // namespace ferry

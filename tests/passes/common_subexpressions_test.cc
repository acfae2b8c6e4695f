#include "passes/common_subexpressions.h"

#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using testing::Count;
using testing::HoldAgainstOptimized;
using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;
using testing::Perm;
using testing::Scalar;

Graph Shared(std::vector<Node> nodes, std::vector<std::string> outputs, std::vector<StoredTensor> constants = {}) {
  std::vector<ValueInfo> infos;
  for (const std::string& name : outputs) infos.push_back(MakeInfo(name));
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {2, 3})}, std::move(nodes), infos, std::move(constants));
  testing::Random random(3);
  HoldAgainstOptimized(model, {random.Floats({2, 3})});
  Graph graph = CopyDeep(model).graph;
  ShareCommonSubexpressions(graph);
  return graph;
}

TEST(CommonSubexpressions, MakesEqualChainsOne) {
  Graph graph = Shared({MakeNode("Exp", {"x"}, {"a"}), MakeNode("Exp", {"x"}, {"b"}), MakeNode("Sin", {"a"}, {"c"}),
                        MakeNode("Sin", {"b"}, {"d"}), MakeNode("Add", {"c", "d"}, {"y"})},
                       {"y"});
  EXPECT_EQ(Count(graph, "Exp"), 1);
  EXPECT_EQ(Count(graph, "Sin"), 1);
}

TEST(CommonSubexpressions, TakesEqualSmallConstantsForOne) {
  Graph graph = Shared({MakeNode("Mul", {"x", "two"}, {"a"}), MakeNode("Mul", {"x", "zwei"}, {"b"}),
                        MakeNode("Mul", {"x", "three"}, {"c"}), MakeNode("Sum", {"a", "b", "c"}, {"y"})},
                       {"y"}, {Scalar("two", 2), Scalar("zwei", 2), Scalar("three", 3)});
  EXPECT_EQ(Count(graph, "Mul"), 2);
}

TEST(CommonSubexpressions, TellsAttributesAndOutputsApart) {
  Graph graph =
      Shared({MakeNode("Transpose", {"x"}, {"a"}, {Perm({1, 0})}), MakeNode("Transpose", {"x"}, {"b"}, {Perm({0, 1})}),
              MakeNode("Exp", {"x"}, {"y"}), MakeNode("Exp", {"x"}, {"z"})},
             {"a", "b", "y", "z"});
  EXPECT_EQ(Count(graph, "Transpose"), 2);
  EXPECT_EQ(Count(graph, "Exp"), 2);  // both are outputs under their own names
}

TEST(CommonSubexpressions, LeavesRandomNumbersAlone) {
  Graph graph = MakeModel({MakeInfo("x", DType::kFloat, {2, 3})},
                          {MakeNode("RandomNormalLike", {"x"}, {"a"}), MakeNode("RandomNormalLike", {"x"}, {"b"}),
                           MakeNode("Sub", {"a", "b"}, {"y"})},
                          {MakeInfo("y")})
                    .graph;
  EXPECT_FALSE(ShareCommonSubexpressions(graph));
}

// What a body captures keeps its name.
TEST(CommonSubexpressions, KeepsWhatBodiesRead) {
  auto body = std::make_shared<Graph>();
  body->nodes = {MakeNode("Neg", {"b"}, {"inner"})};
  body->outputs = {MakeInfo("inner")};
  auto other = std::make_shared<Graph>();
  other->nodes = {MakeNode("Abs", {"a"}, {"inner"})};
  other->outputs = {MakeInfo("inner")};
  Graph graph =
      MakeModel({MakeInfo("x", DType::kFloat, {2, 3}), MakeInfo("choice", DType::kBool, {})},
                {MakeNode("Exp", {"x"}, {"a"}), MakeNode("Exp", {"x"}, {"b"}),
                 MakeNode("If", {"choice"}, {"y"}, {Attribute("then_branch", body), Attribute("else_branch", other)})},
                {MakeInfo("y")})
          .graph;
  ShareCommonSubexpressions(graph);
  EXPECT_EQ(Count(graph, "Exp"), 2);
}

}  // namespace
}  // namespace ferry

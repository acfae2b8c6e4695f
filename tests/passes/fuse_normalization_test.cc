#include "passes/fuse_normalization.h"

#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using namespace testing;  // NOLINT

Model Norm(bool centered, Random& random, int64_t scale_size = 6) {
  std::vector<Node> nodes;
  std::string x = "x";
  if (centered) {
    nodes.push_back(MakeNode("ReduceMean", {"x", "last"}, {"mean"}));
    nodes.push_back(MakeNode("Sub", {"x", "mean"}, {x = "off"}));
  }
  nodes.push_back(MakeNode("Pow", {x, "two"}, {"squares"}));
  nodes.push_back(MakeNode("ReduceMean", {"squares", "last"}, {"variance"}));
  nodes.push_back(MakeNode("Add", {"variance", "epsilon"}, {"above"}));
  nodes.push_back(MakeNode("Sqrt", {"above"}, {"root"}));
  if (centered) {
    nodes.push_back(MakeNode("Div", {x, "root"}, {"normal"}));
  } else {
    nodes.push_back(MakeNode("Reciprocal", {"root"}, {"inverse"}));
    nodes.push_back(MakeNode("Mul", {x, "inverse"}, {"normal"}));
  }
  nodes.push_back(MakeNode("Mul", {"scale", "normal"}, {"scaled"}));
  nodes.push_back(MakeNode("Add", {"scaled", "bias"}, {"y"}));
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("batch"), Dim(5), Dim(6)})}, nodes, {MakeInfo("y")},
                   {Ints("last", {-1}), Scalar("two", 2), Scalar("epsilon", 1e-5f),
                    MakeStored("scale", random.Numbers<float>({scale_size})),
                    MakeStored("bias", random.Numbers<float>({scale_size}))});
}

TEST(FuseNormalization, LayerNormWithItsBias) {
  Random random(5);
  Graph graph = HoldAgainstOptimized(Norm(true, random), {random.Numbers<float>({2, 5, 6})});
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op_type, "LayerNormalization");
}

TEST(FuseNormalization, RmsNorm) {
  Random random(6);
  Graph graph = HoldAgainstOptimized(Norm(false, random), {random.Numbers<float>({2, 5, 6})});
  EXPECT_EQ(Count(graph, "RMSNormalization"), 1);
  EXPECT_EQ(graph.nodes.size(), 2u);  // and the sum
}

TEST(FuseNormalization, LeavesAScaleOfAnotherSize) {
  Random random(7);
  Graph graph = HoldAgainstOptimized(Norm(true, random, 1), {random.Numbers<float>({2, 5, 6})});
  EXPECT_EQ(Count(graph, "LayerNormalization"), 0);
}

}  // namespace
}  // namespace ferry

#include "passes/fold_scaling.h"

#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using namespace testing;  // NOLINT

TEST(FoldScaling, ProductsAndSumsGoIntoTheWeights) {
  Random random(13);
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {Dim(1), Dim(3), Dim(6), Dim(6)})},
                          {MakeNode("Conv", {"x", "w"}, {"c"}), MakeNode("Mul", {"two", "c"}, {"m"}),
                           MakeNode("Add", {"m", "three"}, {"a"}), MakeNode("Mul", {"a", "two"}, {"y"})},
                          {MakeInfo("y")},
                          {MakeStored("w", random.Numbers<float>({4, 3, 3, 3})), Scalar("two", 2), Scalar("three", 3)});
  Graph copy = CopyDeep(model).graph;
  EXPECT_TRUE(FoldScaling(copy));
  EXPECT_EQ(copy.nodes.size(), 1u);
  HoldAgainstOptimized(model, {random.Numbers<float>({1, 3, 6, 6})});
}

TEST(FoldScaling, LeavesAConvolutionThatIsReadTwice) {
  Random random(14);
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {Dim(1), Dim(3), Dim(6), Dim(6)})},
                          {MakeNode("Conv", {"x", "w"}, {"c"}), MakeNode("Mul", {"two", "c"}, {"y"})},
                          {MakeInfo("y"), MakeInfo("c")},
                          {MakeStored("w", random.Numbers<float>({4, 3, 3, 3})), Scalar("two", 2)});
  EXPECT_FALSE(FoldScaling(model.graph));
}

}  // namespace
}  // namespace ferry

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

TEST(FoldScaling, TakesNumbersOfEachChannel) {
  Random random(15);
  for (const char* op : {"Conv", "ConvTranspose"}) {
    Model model = MakeModel(
        {MakeInfo("x", DType::kFloat, {Dim(1), Dim(4), Dim(6), Dim(6)})},
        {MakeNode(op, {"x", "w"}, {"c"}), MakeNode("Add", {"c", "sums"}, {"a"}),
         MakeNode("Mul", {"factors", "a"}, {"y"})},
        {MakeInfo("y")},
        {MakeStored("w", random.Numbers<float>({4, 4, 3, 3})), MakeStored("sums", random.Numbers<float>({1, 4, 1, 1})),
         MakeStored("factors", random.Numbers<float>({4, 1, 1}))});
    Graph copy = CopyDeep(model).graph;
    EXPECT_TRUE(FoldScaling(copy));
    EXPECT_EQ(copy.nodes.size(), 1u);
    HoldAgainstOptimized(model, {random.Numbers<float>({1, 4, 6, 6})});
  }
}

TEST(FoldScaling, LeavesWhatSpreadsAlongAnotherAxis) {
  Random random(16);
  for (Shape shape : {Shape{6}, Shape{6, 1}, Shape{4, 6, 6}, Shape{2, 1, 1, 1, 1}}) {
    Model model = MakeModel(
        {MakeInfo("x", DType::kFloat, {Dim(1), Dim(3), Dim(8), Dim(8)})},
        {MakeNode("Conv", {"x", "w"}, {"c"}), MakeNode("Add", {"c", "sums"}, {"y"})}, {MakeInfo("y")},
        {MakeStored("w", random.Numbers<float>({4, 3, 3, 3})), MakeStored("sums", random.Numbers<float>(shape))});
    EXPECT_FALSE(FoldScaling(model.graph)) << ToText(shape);
  }
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

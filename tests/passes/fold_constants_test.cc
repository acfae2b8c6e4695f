#include "passes/fold_constants.h"

#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using namespace testing;  // NOLINT

TEST(FoldConstants, ComputesWhatIsKnown) {
  Random random(8);
  Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim(2), Dim(3)})},
      {MakeNode("Add", {"a", "b"}, {"c"}), MakeNode("Mul", {"c", "a"}, {"d"}), MakeNode("Sub", {"x", "d"}, {"y"})},
      {MakeInfo("y")}, {Scalar("a", 2), Scalar("b", 3)});
  Graph graph = HoldAgainstOptimized(model, {random.Numbers<float>({2, 3})});
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op_type, "Sub");
}

TEST(FoldConstants, DoesNotMakeModelsLarger) {
  Model model = MakeModel({}, {MakeNode("Expand", {"a", "shape"}, {"y"})}, {MakeInfo("y")},
                          {Scalar("a", 2), Ints("shape", {1024, 1024, 64})});
  EXPECT_FALSE(FoldConstants(model.graph));
}

TEST(FoldConstants, LeavesOverridableInputsAndErrorsAlone) {
  Model model = MakeModel({MakeInfo("a", DType::kFloat, {})}, {MakeNode("Add", {"a", "b"}, {"y"})}, {MakeInfo("y")},
                          {Scalar("a", 2), Scalar("b", 3)});
  EXPECT_FALSE(FoldConstants(model.graph));
  Model wrong = MakeModel({}, {MakeNode("Reshape", {"a", "shape"}, {"y"})}, {MakeInfo("y")},
                          {Scalar("a", 2), Ints("shape", {7})});
  EXPECT_FALSE(FoldConstants(wrong.graph));
}

}  // namespace
}  // namespace ferry

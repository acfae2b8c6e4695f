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

TEST(FoldConstants, LeavesRowsThatAreTakenWhereTheyLie) {
  Random random(9);
  const Tensor weight = random.Numbers<float>({8, 5});
  struct Case {
    int64_t start, end, step;
    int64_t first, count;  // first < 0: they do not lie together
  };
  for (const Case& c :
       {Case{2, 4, 1, 2, 2}, Case{-3, INT64_MAX, 1, 5, 3}, Case{INT64_MIN, -6, 1, 0, 2}, Case{5, 3, 1, 5, 0},
        Case{9, 12, 1, 8, 0}, Case{0, 8, 2, -1, 4}, Case{7, INT64_MIN, -1, -1, 8}}) {
    Model model = MakeModel({}, {MakeNode("Slice", {"w", "start", "end", "axis", "step"}, {"y"})}, {MakeInfo("y")},
                            {MakeStored("w", weight), Ints("start", {c.start}), Ints("end", {c.end}), Ints("axis", {0}),
                             Ints("step", {c.step})});
    const Graph graph = HoldAgainstOptimized(model, {});
    ASSERT_TRUE(FoldConstants(model.graph));
    for (const StoredTensor& made : model.graph.initializers) {
      if (made.name != "y") continue;
      EXPECT_EQ(made.tensor.shape(), Shape({c.count, 5}));
      if (c.first < 0) continue;
      EXPECT_EQ(made.tensor.raw(), weight.raw() + c.first * 5 * 4) << "rows were copied";
    }
  }
}

TEST(FoldConstants, LongChainsOfReshapesBehindCodes) {
  std::vector<Node> nodes = {MakeNode("DequantizeLinear", {"codes", "scale"}, {"v0"})};
  constexpr int kMany = 200'000;
  for (int i = 0; i < kMany; ++i) nodes.push_back(MakeNode("Reshape", {Cat("v", i), "shape"}, {Cat("v", i + 1)}));
  nodes.push_back(MakeNode("Conv", {"x", Cat("v", kMany)}, {"y"}));
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {1, 1, 4, 4})}, std::move(nodes), {MakeInfo("y")},
                          {MakeStored("codes", Tensor::FromVector(std::vector<int8_t>{1}, {1, 1, 1, 1})),
                           Scalar("scale", 0.5f), Ints("shape", {1, 1, 1, 1})});
  FoldConstants(model.graph);  // not so deep that the stack ends
}

}  // namespace
}  // namespace ferry

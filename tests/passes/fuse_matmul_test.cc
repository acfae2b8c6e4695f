#include "passes/fuse_matmul.h"

#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using namespace testing;  // NOLINT

ValueInfo Named(const char* name, std::vector<int64_t> dims) {
  return MakeInfo(name, DType::kFloat, SymbolicShape(dims.begin(), dims.end()));
}

TEST(FuseMatMul, TakesBiasAndActivation) {
  Random random(9);
  Model model = MakeModel(
      {Named("x", {2, 3, 8})},
      {MakeNode("MatMul", {"x", "w"}, {"p"}), MakeNode("Add", {"p", "b"}, {"s"}), MakeNode("Gelu", {"s"}, {"y"})},
      {MakeInfo("y")}, {MakeStored("w", random.Numbers<float>({8, 20})), MakeStored("b", random.Numbers<float>({20}))});
  EXPECT_EQ(HoldAgainstOptimized(model, {random.Numbers<float>({2, 3, 8})}).nodes.size(), 1u);
}

TEST(FuseMatMul, TakesASumOfTheSameShapeAndNoOther) {
  Random random(10);
  for (int64_t rows : {3, 1}) {
    Model model = MakeModel({Named("x", {3, 8}), Named("r", {rows, 20})},
                            {MakeNode("MatMul", {"x", "w"}, {"p"}), MakeNode("Add", {"r", "p"}, {"y"})},
                            {MakeInfo("y")}, {MakeStored("w", random.Numbers<float>({8, 20}))});
    Graph graph = HoldAgainstOptimized(model, {random.Numbers<float>({3, 8}), random.Numbers<float>({rows, 20})});
    EXPECT_EQ(Count(graph, "Add"), rows == 3 ? 0 : 1);
  }
}

TEST(FuseMatMul, ReadsATransposedWeightAsItIs) {
  Random random(11);
  Model model = MakeModel({Named("x", {3, 8})},
                          {MakeNode("Transpose", {"w"}, {"t"}, {Perm({1, 0})}), MakeNode("MatMul", {"x", "t"}, {"y"})},
                          {MakeInfo("y")}, {MakeStored("w", random.Numbers<float>({20, 8}))});
  Graph graph = HoldAgainstOptimized(model, {random.Numbers<float>({3, 8})});
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op_type, "FusedMatMul");
}

TEST(FuseMatMul, LooksBehindAReshape) {
  Random random(12);
  Model model = MakeModel({Named("x", {6, 8}), Named("r", {2, 3, 20})},
                          {MakeNode("Gemm", {"x", "w", "b"}, {"p"}), MakeNode("Reshape", {"p", "shape"}, {"v"}),
                           MakeNode("Add", {"v", "r"}, {"y"})},
                          {MakeInfo("y")},
                          {MakeStored("w", random.Numbers<float>({8, 20})),
                           MakeStored("b", random.Numbers<float>({20})), Ints("shape", {2, 3, 20})});
  Graph graph = HoldAgainstOptimized(model, {random.Numbers<float>({6, 8}), random.Numbers<float>({2, 3, 20})});
  EXPECT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(Count(graph, "Add"), 0);
}

// As ConvNeXt scales its layers.
TEST(FuseMatMul, TakesAFactorForEachColumnBeforeTheSum) {
  Random random(13);
  for (Shape shape : {Shape{20}, Shape{1, 1, 20}, Shape{3, 1}, Shape{1, 1, 1, 20}}) {
    Model model =
        MakeModel({Named("x", {2, 3, 8}), Named("r", {2, 3, 20})},
                  {MakeNode("MatMul", {"x", "w"}, {"p"}), MakeNode("Add", {"p", "b"}, {"s"}),
                   MakeNode("Mul", {"f", "s"}, {"m"}), MakeNode("Add", {"m", "r"}, {"y"})},
                  {MakeInfo("y")},
                  {MakeStored("w", random.Numbers<float>({8, 20})), MakeStored("b", random.Numbers<float>({20})),
                   MakeStored("f", random.Numbers<float>(shape))});
    Graph graph = HoldAgainstOptimized(model, {random.Numbers<float>({2, 3, 8}), random.Numbers<float>({2, 3, 20})});
    bool fits = shape.back() == 20 && shape.rank() <= 3;
    EXPECT_EQ(graph.nodes.size(), fits ? 1u : 3u) << shape.rank();
  }
}

TEST(FuseMatMul, ScalesRowsBeyondABlockOfThem) {
  Random random(14);
  Model model = MakeModel(
      {Named("x", {500, 8})}, {MakeNode("MatMul", {"x", "w"}, {"p"}), MakeNode("Mul", {"p", "f"}, {"y"})},
      {MakeInfo("y")}, {MakeStored("w", random.Numbers<float>({8, 20})), MakeStored("f", random.Numbers<float>({20}))});
  EXPECT_EQ(HoldAgainstOptimized(model, {random.Numbers<float>({500, 8})}).nodes.size(), 1u);
}

// act((x · w + b) · factor) is not act(x · w + b) · factor.
TEST(FuseMatMul, LeavesActivationsBehindAFactor) {
  Random random(17);
  for (bool gemm : {false, true})
    for (const char* activation : {"Relu", "Tanh", "Sigmoid", "Gelu"}) {
      Model model = MakeModel(
          {Named("x", {3, 8})},
          {MakeNode(gemm ? "Gemm" : "MatMul",
                    gemm ? std::vector<std::string>{"x", "w", "b"} : std::vector<std::string>{"x", "w"}, {"p"}),
           MakeNode("Mul", {"p", "factor"}, {"scaled"}), MakeNode(activation, {"scaled"}, {"y"})},
          {MakeInfo("y")},
          {MakeStored("w", random.Numbers<float>({8, 20})), MakeStored("b", random.Numbers<float>({20})),
           MakeStored("factor", random.Numbers<float>({20}))});
      Graph graph = HoldAgainstOptimized(model, {random.Numbers<float>({3, 8})});
      EXPECT_EQ(graph.nodes.size(), 2u);
    }
}

}  // namespace
}  // namespace ferry

#include "passes/fuse_attention.h"

#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using namespace testing;  // NOLINT

struct Case {
  int64_t batch, heads, queries, keys, size;
  bool heads_inside, masked, guarded;
};

// As PyTorch exports scaled_dot_product_attention.
Model Attention(const Case& c, Random& random) {
  Shape q = c.heads_inside ? Shape{c.batch, c.queries, c.heads, c.size} : Shape{c.batch, c.heads, c.queries, c.size};
  Shape k = c.heads_inside ? Shape{c.batch, c.keys, c.heads, c.size} : Shape{c.batch, c.heads, c.keys, c.size};
  auto symbolic = [](const Shape& shape) { return SymbolicShape(shape.begin(), shape.end()); };
  std::vector<ValueInfo> inputs = {MakeInfo("q", DType::kFloat, symbolic(q)), MakeInfo("k", DType::kFloat, symbolic(k)),
                                   MakeInfo("v", DType::kFloat, symbolic(k))};
  std::vector<StoredTensor> constants = {Scalar("half", 0.5f), Scalar("zero", 0.0f)};
  std::vector<Node> nodes;
  auto heads_first = [&](const std::string& name) {
    if (!c.heads_inside) return name;
    nodes.push_back(MakeNode("Transpose", {name}, {name + "_t"}, {Perm({0, 2, 1, 3})}));
    return name + "_t";
  };
  std::string query = heads_first("q"), key = heads_first("k"), value = heads_first("v");
  constants.push_back(Ints("flat", {-1, c.keys, c.size}));
  constants.push_back(Ints("back", {c.batch, c.heads, c.size, c.keys}));
  nodes.push_back(MakeNode("Reshape", {key, "flat"}, {"k_flat"}));
  nodes.push_back(MakeNode("Transpose", {"k_flat"}, {"k_turned"}, {Perm({0, 2, 1})}));
  nodes.push_back(MakeNode("Reshape", {"k_turned", "back"}, {"k_back"}));
  nodes.push_back(MakeNode("Mul", {query, "half"}, {"q_scaled"}));
  nodes.push_back(MakeNode("Mul", {"k_back", "half"}, {"k_scaled"}));
  nodes.push_back(MakeNode("MatMul", {"q_scaled", "k_scaled"}, {"scores"}));
  std::string scores = "scores";
  if (c.masked) {
    Tensor mask = random.Numbers<float>({c.batch, 1, c.queries, c.keys});
    for (int64_t i = 0; i < c.keys; ++i) mask.MutableData<float>()[i] = -INFINITY;  // the first query sees nothing
    constants.push_back(MakeStored("mask", mask));
    nodes.push_back(MakeNode("Add", {scores, "mask"}, {"masked"}));
    scores = "masked";
  }
  nodes.push_back(MakeNode("Softmax", {scores}, {"p"}));
  std::string p = "p";
  if (c.guarded) {
    nodes.push_back(MakeNode("IsNaN", {"p"}, {"is_nan"}));
    nodes.push_back(MakeNode("Where", {"is_nan", "zero", "p"}, {"p_guarded"}));
    p = "p_guarded";
  }
  nodes.push_back(MakeNode("MatMul", {p, value}, {"attended"}));
  std::string out = "attended";
  if (c.heads_inside) nodes.push_back(MakeNode("Transpose", {"attended"}, {out = "y"}, {Perm({0, 2, 1, 3})}));
  return MakeModel(inputs, nodes, {MakeInfo(out)}, constants);
}

TEST(FuseAttention, GivesTheSameAnswersOverRandomShapes) {
  Random random(23);
  for (int round = 0; round < 200; ++round) {
    Case c{random.Int(1, 2),  random.Int(1, 3), random.Int(1, 40), random.Int(1, 50),
           random.Int(1, 20), random.Bool(),    random.Bool(),     random.Bool()};
    if (round % 20 == 0) c.queries = 600;
    Model model = Attention(c, random);
    std::vector<Value> inputs;
    for (const ValueInfo& input : model.graph.inputs)
      inputs.emplace_back(random.Numbers<float>(*ToConcrete(*input.type.shape)));
    Graph graph = HoldAgainstOptimized(model, inputs);
    ASSERT_EQ(Count(graph, "FusedAttention"), 1);
    ASSERT_EQ(graph.nodes.size(), 1u);
    if (::testing::Test::HasFailure()) FAIL() << "round " << round;
  }
}

TEST(FuseAttention, LeavesProbabilitiesThatAreReadElsewhere) {
  Random random(29);
  Model model = Attention({1, 2, 3, 4, 5, false, false, false}, random);
  model.graph.outputs.push_back(MakeInfo("p"));
  std::vector<Value> inputs;
  for (const ValueInfo& input : model.graph.inputs)
    inputs.emplace_back(random.Numbers<float>(*ToConcrete(*input.type.shape)));
  EXPECT_EQ(Count(HoldAgainstOptimized(model, inputs), "FusedAttention"), 0);
}

}  // namespace
}  // namespace ferry

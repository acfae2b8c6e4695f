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
    if (round % 20 == 10) c.queries = 150, c.keys = 900;  // more scores than are kept
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

enum class Repeat { kExpand, kTile, kGather, kTileOfAnyLength };

// Keys and values with fewer heads than queries, each repeated for the queries that share it.
Model SharedHeads(Random& random, int64_t heads, int64_t sharing, bool symbolic, Repeat repeat, bool heads_inside) {
  const int64_t size = 2 * random.Int(1, 10), queries = random.Int(1, 9), keys = random.Int(1, 20);
  Dim length = symbolic ? Dim::Named("keys") : Dim(keys), batch = symbolic ? Dim::Named("batch") : Dim(2);
  SymbolicShape kv =
      heads_inside ? SymbolicShape{batch, length, heads, size} : SymbolicShape{batch, heads, length, size};
  std::vector<ValueInfo> inputs = {MakeInfo("q", DType::kFloat, {batch, heads * sharing, queries, size}),
                                   MakeInfo("k", DType::kFloat, kv), MakeInfo("v", DType::kFloat, kv)};
  std::vector<StoredTensor> constants = {Ints("two", {2}),
                                         Ints("heads", {heads}),
                                         Ints("sharing", {sharing}),
                                         Ints("all", {heads * sharing}),
                                         Ints("repeats", {1, 1, sharing, 1, 1}),
                                         Ints("any_length", {0, heads * sharing, -1, size})};
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < heads * sharing; ++i) numbers.push_back(i / sharing);
  constants.push_back(Ints("numbers", numbers));
  std::vector<Node> nodes;
  auto add = [&](const char* op, std::vector<std::string> from, const std::string& to,
                 std::vector<Attribute> attributes = {}) { nodes.push_back(MakeNode(op, from, {to}, attributes)); };
  auto range = [](int64_t start, int64_t end) {
    Node node;
    node.Set("start", start);
    node.Set("end", end);
    return node.attributes;
  };
  auto axis = [](int64_t number) {
    Node node;
    node.Set("axis", number);
    return node.attributes;
  };
  auto repeated = [&](std::string x) {
    if (heads_inside) {
      add("Transpose", {x}, x + "_first", {Perm({0, 2, 1, 3})});
      x += "_first";
    }
    if (repeat == Repeat::kGather) {
      add("Gather", {x, "numbers"}, x + "_all", axis(1));
      return x + "_all";
    }
    add("Shape", {x}, x + "_batch", range(0, 1));
    add("Shape", {x}, x + "_rest", range(2, 4));
    add("Unsqueeze", {x, "two"}, x + "_apart");
    if (repeat == Repeat::kTileOfAnyLength) {
      add("Tile", {x + "_apart", "repeats"}, x + "_many");
      add("Reshape", {x + "_many", "any_length"}, x + "_all");
      return x + "_all";
    }
    if (repeat == Repeat::kTile) {
      add("Tile", {x + "_apart", "repeats"}, x + "_many");
    } else {
      add("Concat", {x + "_batch", "heads", "sharing", x + "_rest"}, x + "_many_shape", axis(0));
      add("Expand", {x + "_apart", x + "_many_shape"}, x + "_many");
    }
    add("Concat", {x + "_batch", "all", x + "_rest"}, x + "_shape", axis(0));
    add("Reshape", {x + "_many", x + "_shape"}, x + "_all");
    return x + "_all";
  };
  std::string k = repeated("k"), v = repeated("v");
  add("Transpose", {k}, "k_turned", {Perm({0, 1, 3, 2})});
  add("MatMul", {"q", "k_turned"}, "scores");
  add("Softmax", {"scores"}, "p");
  add("MatMul", {"p", v}, "y");
  return MakeModel(inputs, nodes, {MakeInfo("y")}, constants);
}

TEST(FuseAttention, ReadsSharedHeadsWithoutRepeatingThem) {
  Random random(31);
  for (int round = 0; round < 120; ++round) {
    const bool symbolic = random.Bool(), heads_inside = random.Bool();
    const auto repeat = static_cast<Repeat>(round % 4);
    Model model = SharedHeads(random, random.Int(1, 3), random.Int(2, 4), symbolic, repeat, heads_inside);
    std::vector<Value> inputs;
    for (const ValueInfo& input : model.graph.inputs) {
      Shape shape;
      for (const Dim& dim : *input.type.shape)
        shape.push_back(dim.known() ? *dim.value : dim.symbol == "batch" ? 2 : 7);
      inputs.emplace_back(random.Numbers<float>(shape));
    }
    Graph graph = HoldAgainstOptimized(model, inputs);
    ASSERT_EQ(Count(graph, "FusedAttention"), 1);
    ASSERT_EQ(graph.nodes.size(), 1u) << "round " << round;
    if (::testing::Test::HasFailure()) FAIL() << "round " << round;
  }
}

// A step of decoding: the length is that of the past and one more, once added up by Concat, once as a number.
TEST(FuseAttention, ReadsSharedHeadsBehindAKeyValueCache) {
  Random random(41);
  const int64_t heads = 2, sharing = 3, size = 8;
  SymbolicShape kv = {Dim::Named("batch"), heads, Dim::Named("past"), size},
                one = {Dim::Named("batch"), heads, 1, size};
  std::vector<ValueInfo> inputs = {MakeInfo("q", DType::kFloat, {Dim::Named("batch"), heads * sharing, 1, size})};
  std::vector<StoredTensor> constants = {Ints("two", {2}),           Ints("heads", {heads}),
                                         Ints("sharing", {sharing}), Ints("all", {heads * sharing}),
                                         Ints("size", {size}),       Ints("one", {1})};
  auto attribute = [](const char* name, int64_t value) {
    Node node;
    node.Set(name, value);
    return node.attributes[0];
  };
  std::vector<Node> nodes;
  for (const char* x : {"k", "v"}) {
    auto named = [&](const char* part) { return Cat(x, "_", part); };
    inputs.push_back(MakeInfo(named("past"), DType::kFloat, kv));
    inputs.push_back(MakeInfo(named("new"), DType::kFloat, one));
    nodes.push_back(MakeNode("Concat", {named("past"), named("new")}, {x}, {attribute("axis", -2)}));
    nodes.push_back(MakeNode("Shape", {named("past")}, {named("batch")}, {attribute("start", 0), attribute("end", 1)}));
    nodes.push_back(
        MakeNode("Shape", {named("past")}, {named("before")}, {attribute("start", 2), attribute("end", 3)}));
    nodes.push_back(MakeNode("Add", {"one", named("before")}, {named("length")}));
    nodes.push_back(MakeNode("Unsqueeze", {x, "two"}, {named("apart")}));
    nodes.push_back(MakeNode("Concat", {named("batch"), "heads", "sharing", named("length"), "size"},
                             {named("many_shape")}, {attribute("axis", 0)}));
    nodes.push_back(MakeNode("Expand", {named("apart"), named("many_shape")}, {named("many")}));
    nodes.push_back(
        MakeNode("Concat", {named("batch"), "all", named("length"), "size"}, {named("shape")}, {attribute("axis", 0)}));
    nodes.push_back(MakeNode("Reshape", {named("many"), named("shape")}, {named("all")}));
  }
  nodes.push_back(MakeNode("Transpose", {"k_all"}, {"k_turned"}, {Perm({0, 1, 3, 2})}));
  nodes.push_back(MakeNode("MatMul", {"q", "k_turned"}, {"scores"}));
  nodes.push_back(MakeNode("Softmax", {"scores"}, {"p"}));
  nodes.push_back(MakeNode("MatMul", {"p", "v_all"}, {"y"}));
  Model model = MakeModel(inputs, nodes, {MakeInfo("y")}, constants);
  std::vector<Value> values{random.Numbers<float>({2, heads * sharing, 1, size})};
  for (int i = 0; i < 2; ++i) {
    values.emplace_back(random.Numbers<float>({2, heads, 5, size}));
    values.emplace_back(random.Numbers<float>({2, heads, 1, size}));
  }
  Graph graph = HoldAgainstOptimized(model, values);
  EXPECT_EQ(Count(graph, "FusedAttention"), 1);
  EXPECT_EQ(Count(graph, "Concat"), 2) << "of past and new";
  EXPECT_EQ(graph.nodes.size(), 3u);
}

// The same by repeat_interleave, where nothing says that past and new together are as long as the result.
TEST(FuseAttention, ReadsSharedHeadsOfUnknownLength) {
  Random random(61);
  const int64_t heads = 2, sharing = 2, size = 8;
  auto attribute = [](const char* name, int64_t value) {
    Node node;
    node.Set(name, value);
    return node.attributes;
  };
  std::vector<ValueInfo> inputs = {MakeInfo("q", DType::kFloat, {Dim::Named("batch"), heads * sharing, 1, size})};
  std::vector<StoredTensor> constants = {Ints("two", {2}), Ints("repeats", {1, 1, sharing, 1, 1}),
                                         Ints("shape", {0, heads * sharing, -1, size})};
  std::vector<Node> nodes;
  std::vector<Value> values{random.Numbers<float>({2, heads * sharing, 1, size})};
  for (const std::string x : {"k", "v"}) {
    inputs.push_back(
        MakeInfo(x + "_past", DType::kFloat, {Dim::Named("batch"), heads, Dim::Named(x + "_length"), size}));
    inputs.push_back(MakeInfo(x + "_new", DType::kFloat, {Dim::Named("batch"), heads, Dim::Named("new"), size}));
    values.emplace_back(random.Numbers<float>({2, heads, 5, size}));
    values.emplace_back(random.Numbers<float>({2, heads, 3, size}));
    nodes.push_back(MakeNode("Concat", {x + "_past", x + "_new"}, {x}, attribute("axis", 2)));
    nodes.push_back(MakeNode("Unsqueeze", {x, "two"}, {x + "_apart"}));
    nodes.push_back(MakeNode("Tile", {x + "_apart", "repeats"}, {x + "_many"}));
    nodes.push_back(MakeNode("Reshape", {x + "_many", "shape"}, {x + "_all"}));
  }
  nodes.push_back(MakeNode("Transpose", {"k_all"}, {"k_turned"}, {Perm({0, 1, 3, 2})}));
  nodes.push_back(MakeNode("MatMul", {"q", "k_turned"}, {"scores"}));
  nodes.push_back(MakeNode("Softmax", {"scores"}, {"p"}));
  nodes.push_back(MakeNode("MatMul", {"p", "v_all"}, {"y"}));
  Graph graph = HoldAgainstOptimized(MakeModel(inputs, nodes, {MakeInfo("y")}, constants), values);
  EXPECT_EQ(graph.nodes.size(), 3u) << "two Concats and a FusedAttention";
}

// Heads 0, 1, 0, 1 are repeated as a whole: no query shares its neighbour's.
TEST(FuseAttention, LeavesHeadsInAnotherOrder) {
  Random random(37);
  Model model = SharedHeads(random, 2, 2, false, Repeat::kGather, false);
  for (StoredTensor& constant : model.graph.initializers)
    if (constant.name == "numbers") constant = Ints("numbers", {0, 1, 0, 1});
  std::vector<Value> inputs;
  for (const ValueInfo& input : model.graph.inputs)
    inputs.emplace_back(random.Numbers<float>(*ToConcrete(*input.type.shape)));
  Graph graph = HoldAgainstOptimized(model, inputs);
  EXPECT_EQ(Count(graph, "FusedAttention"), 1);
  EXPECT_EQ(Count(graph, "Gather"), 2);
}

}  // namespace
}  // namespace ferry

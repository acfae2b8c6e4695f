#include "passes/widen_halves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "engine/session.h"
#include "tensor/small_float.h"
#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

constexpr auto kHalf = DType::kFloat16;

Tensor Halves(const std::vector<float>& values, Shape shape) {
  Tensor tensor(kHalf, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.MutableData<Float16>()[i] = ToFloat16(values[i]);
  return tensor;
}

// Different numbers between -1 and 1.
Tensor SomeHalves(Shape shape) {
  Tensor tensor(kHalf, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.MutableData<Float16>()[i] = ToFloat16(std::sin(static_cast<float>(i * i % 97 + 1)));
  return tensor;
}

Node CastTo(DType type, const std::string& from, const std::string& to) {
  return MakeNode("Cast", {from}, {to}, {{"to", static_cast<int64_t>(type)}});
}

Graph Widened(const Model& model) {
  Graph graph = CopyDeep(model).graph;
  WidenHalves(graph);
  return graph;
}

bool IsAsItWas(const Model& model) { return Widened(model).nodes.size() == model.graph.nodes.size(); }

const Node* MakerOf(const Graph& graph, const std::string& value) {
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs)
      if (output == value) return &node;
  return nullptr;
}

std::vector<Value> RunWidened(const Model& model, const std::vector<Value>& inputs) {
  return EvaluateGraph(Widened(model), inputs, RunServices{});
}

// Answers have the types that the model says, and are those of the graph as it is written within what a few roundings
// make of them.
void HoldAgainstPlain(const Model& model, const std::vector<Value>& inputs, float tolerance = 4e-3f) {
  const std::vector<Value> expected = EvaluateGraph(model.graph, inputs, RunServices{});
  const std::vector<Value> got = RunWidened(model, inputs);
  ASSERT_EQ(expected.size(), got.size());
  for (size_t n = 0; n < expected.size(); ++n) {
    const Tensor &a = expected[n].tensor(), &b = got[n].tensor();
    ASSERT_EQ(a.dtype(), b.dtype()) << n;
    ASSERT_TRUE(a.shape() == b.shape());
    if (a.dtype() != kHalf) continue;
    for (int64_t i = 0; i < a.size(); ++i) {
      const float x = ToFloat(a.Data<Float16>()[i]), y = ToFloat(b.Data<Float16>()[i]);
      ASSERT_NEAR(x, y, tolerance * (1 + std::abs(x))) << i;
    }
  }
}

TEST(WidenHalves, NodesComputeInFloatAndEdgesKeepTheirTypes) {
  const Model model = MakeModel(
      {MakeInfo("x", kHalf, {2, 3})},
      {MakeNode("MatMul", {"x", "w"}, {"m"}), MakeNode("Relu", {"m"}, {"r"}), MakeNode("Add", {"r", "b"}, {"y"})},
      {MakeInfo("y", kHalf), MakeInfo("r", kHalf)},
      {MakeStored("w", SomeHalves({3, 4})), MakeStored("b", SomeHalves({4}))});
  const Graph graph = Widened(model);
  EXPECT_EQ(graph.FindInitializer("w")->dtype, DType::kFloat);
  EXPECT_EQ(graph.inputs[0].type.dtype, kHalf);
  EXPECT_EQ(testing::Count(graph, "Cast"), 3) << "the input and both outputs";
  ASSERT_TRUE(MakerOf(graph, "y"));
  EXPECT_EQ(MakerOf(graph, "y")->op_type, "Cast");
  HoldAgainstPlain(model, {SomeHalves({2, 3})});
}

TEST(WidenHalves, ACastThatTheModelAsksForRounds) {
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {3})},
                {CastTo(kHalf, "x", "h"), MakeNode("Mul", {"h", "one"}, {"p"}), CastTo(DType::kFloat, "p", "y")},
                {MakeInfo("y")}, {MakeStored("one", Halves({1}, {}))});
  const std::vector<float> x = {1.0001f, 70000, 1e-9f};
  const Tensor y = RunWidened(model, {Tensor::FromVector(x)})[0].tensor();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y.Data<float>()[i], ToFloat(ToFloat16(x[i]))) << x[i];
}

TEST(WidenHalves, SoDoesOneToTheTypeOfAnother) {
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {2}), MakeInfo("like", kHalf, {1})},
      {MakeNode("CastLike", {"x", "like"}, {"h"}), MakeNode("Neg", {"h"}, {"n"}), CastTo(DType::kFloat, "n", "y")},
      {MakeInfo("y")});
  ASSERT_FALSE(IsAsItWas(model));
  const Tensor y = RunWidened(model, {Tensor::FromVector<float>({1.0001f, 3}), Halves({0}, {1})})[0].tensor();
  EXPECT_EQ(y.Data<float>()[0], -1);
}

TEST(WidenHalves, OfTablesRowsAreReadAsTheyLie) {
  const Tensor table = SomeHalves({1000, 64}), ids = Tensor::FromVector<int64_t>({7, 999, 0});
  Model model = MakeModel({MakeInfo("ids", DType::kInt64, {3})},
                          {MakeNode("Gather", {"table", "ids"}, {"rows"}), MakeNode("Tanh", {"rows"}, {"y"})},
                          {MakeInfo("y", kHalf)}, {MakeStored("table", table)});
  EXPECT_EQ(Widened(model).FindInitializer("table")->dtype, kHalf);
  HoldAgainstPlain(model, {ids});
  // The same table as the last product's weights.
  model.graph.nodes.push_back(MakeNode("Transpose", {"table"}, {"t"}));
  model.graph.nodes.push_back(MakeNode("MatMul", {"y", "t"}, {"z"}));
  model.graph.outputs.push_back(MakeInfo("z", kHalf));
  const Graph graph = Widened(model);
  std::map<DType, int> types;
  for (const StoredTensor& initializer : graph.initializers) ++types[initializer.dtype];
  EXPECT_EQ(types[kHalf], 1);
  EXPECT_EQ(types[DType::kFloat], 1);
  HoldAgainstPlain(model, {ids}, 2e-2f);
}

TEST(WidenHalves, InputsAndWeightsMayBeOutputs) {
  const Model model =
      MakeModel({MakeInfo("x", kHalf, {2}), MakeInfo("scale", kHalf, {2})},
                {MakeNode("Mul", {"x", "scale"}, {"m"}), MakeNode("Add", {"m", "w"}, {"y"})},
                {MakeInfo("x", kHalf), MakeInfo("y", kHalf), MakeInfo("w", kHalf)},
                {MakeStored("scale", Halves({2, 3}, {2})), MakeStored("w", Halves({0.5f, 0.25f}, {2}))});
  ASSERT_FALSE(IsAsItWas(model));
  HoldAgainstPlain(model, {Halves({1, -1}, {2}), Halves({4, 8}, {2})});
}

TEST(WidenHalves, BodiesReadWhatIsAroundThem) {
  Graph body =
      MakeModel({MakeInfo("i", DType::kInt64, {}), MakeInfo("go", DType::kBool, {}), MakeInfo("state", kHalf, {2})},
                {MakeNode("Add", {"state", "x"}, {"next"}), MakeNode("Identity", {"go"}, {"on"}),
                 MakeNode("Mul", {"next", "w"}, {"scan"})},
                {MakeInfo("on", DType::kBool, {}), MakeInfo("next", kHalf, {2}), MakeInfo("scan", kHalf, {2})})
          .graph;
  const Model model =
      MakeModel({MakeInfo("x", kHalf, {2})},
                {MakeNode("Loop", {"turns", "", "w"}, {"last", "all"}, {{"body", std::make_shared<Graph>(body)}})},
                {MakeInfo("last", kHalf), MakeInfo("all", kHalf)},
                {MakeStored("turns", Tensor::Scalar<int64_t>(3)), MakeStored("w", Halves({0.5f, 2}, {2}))});
  ASSERT_FALSE(IsAsItWas(model));
  HoldAgainstPlain(model, {Halves({1, -1.5f}, {2})});
}

// A value of each branch is named like an output of the graph, whose type stays.
TEST(WidenHalves, BodiesMayReuseNames) {
  auto branch = [](std::vector<Node> nodes, std::vector<StoredTensor> stored) {
    return std::make_shared<Graph>(
        MakeModel({}, std::move(nodes), {MakeInfo("y", kHalf, {2})}, std::move(stored)).graph);
  };
  const Model model = MakeModel({MakeInfo("x", kHalf, {2}), MakeInfo("c", DType::kBool, {})},
                                {MakeNode("If", {"c"}, {"y"},
                                          {{"then_branch", branch({}, {MakeStored("y", Halves({3, 4}, {2}))})},
                                           {"else_branch", branch({MakeNode("Mul", {"x", "x"}, {"y"})}, {})}}),
                                 MakeNode("Mul", {"y", "x"}, {"z"})},
                                {MakeInfo("y", kHalf), MakeInfo("z", kHalf)});
  ASSERT_FALSE(IsAsItWas(model));
  for (bool condition : {true, false})
    HoldAgainstPlain(model, {Halves({1, -1.5f}, {2}), Tensor::Scalar<bool>(condition)});
}

TEST(WidenHalves, QuotientsOfQuantizeLinearAreRoundedToTheTypeOfTheirScale) {
  const Tensor x = Halves({-2.766f, -3.879f, -4.25f}, {3});
  const Model model =
      MakeModel({MakeInfo("x", kHalf, {3})},
                {MakeNode("QuantizeLinear", {"x", "scale", "zero"}, {"q"}), MakeNode("Neg", {"x"}, {"n"})},
                {MakeInfo("q", DType::kInt8), MakeInfo("n", kHalf)},
                {MakeStored("scale", Halves({0.0371f}, {})), MakeStored("zero", Tensor::Scalar<int8_t>(0))});
  ASSERT_FALSE(IsAsItWas(model));
  const Tensor expected = EvaluateGraph(model.graph, std::vector<Value>{x}, RunServices{})[0].tensor();
  const Tensor got = RunWidened(model, {x})[0].tensor();
  EXPECT_EQ(std::memcmp(got.raw(), expected.raw(), 3), 0);
}

TEST(WidenHalves, TextsHaveTheDigitsOfHalves) {
  const Tensor x = Halves({0.1f, 3.3f, 1e-5f}, {3});
  for (const Node& text : {CastTo(DType::kString, "x", "s"), MakeNode("CastLike", {"x", "like"}, {"s"})}) {
    const Model model =
        MakeModel({MakeInfo("x", kHalf, {3}), MakeInfo("like", DType::kString, {1})},
                  {text, MakeNode("Neg", {"x"}, {"n"})}, {MakeInfo("s", DType::kString), MakeInfo("n", kHalf)});
    ASSERT_FALSE(IsAsItWas(model));
    const std::vector<Value> inputs = {x, Tensor(DType::kString, {1})};
    const Tensor made = RunWidened(model, inputs)[0].tensor();
    const auto texts = made.Span<std::string>();
    EXPECT_EQ(texts[0], "0.1");
    EXPECT_EQ(texts[2], "1e-05");
  }
}

TEST(WidenHalves, EdgesAreCastWhereTheyAreReadAndMade) {
  Model model = MakeModel({MakeInfo("a", kHalf, {2}), MakeInfo("b", kHalf, {2}), MakeInfo("unread", kHalf, {2})},
                          {MakeNode("Neg", {"a"}, {"x"}), MakeNode("Mul", {"b", "a"}, {"y"})},
                          {MakeInfo("x", kHalf), MakeInfo("y", kHalf)});
  model.graph.nodes[1].name.clear();
  const Graph graph = Widened(model);
  std::vector<std::string> nodes;
  for (const Node& node : graph.nodes) nodes.push_back(node.name);
  EXPECT_EQ(nodes, (std::vector<std::string>{"a (as float) (cast)", "Neg_x", "x (cast)", "b (as float) (cast)", "y",
                                             "y (cast)"}));
  HoldAgainstPlain(model, {Halves({1, 2}, {2}), Halves({3, 4}, {2}), Halves({5, 6}, {2})});
}

TEST(WidenHalves, AttentionAppendsToItsCacheOfHalves) {
  for (int64_t queries : {1, 5}) {
    const auto heads = [&](const char* name, int64_t width) { return MakeInfo(name, kHalf, {1, queries, width}); };
    Node attention = MakeNode("GroupQueryAttention", {"q", "k", "v", "pk", "pv", "last", "total"}, {"y", "nk", "nv"},
                              {{"num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}});
    attention.domain = "com.microsoft";
    Model model = MakeModel(
        {heads("q", 32), heads("k", 16), heads("v", 16), MakeInfo("pk", kHalf, {1, 2, 12, 8}),
         MakeInfo("pv", kHalf, {1, 2, 12, 8})},
        {attention}, {MakeInfo("y", kHalf), MakeInfo("nk", kHalf), MakeInfo("nv", kHalf)},
        {MakeStored("last", Tensor::FromVector<int32_t>({9})), MakeStored("total", Tensor::Scalar<int32_t>(10))});
    model.opsets.push_back({"com.microsoft", 1, {}});
    EXPECT_EQ(testing::Count(Widened(model), "Cast"), 4) << "q, k, v and y";
    const std::vector<Value> inputs = {SomeHalves({1, queries, 32}), SomeHalves({1, queries, 16}),
                                       SomeHalves({1, queries, 16}), SomeHalves({1, 2, 12, 8}),
                                       SomeHalves({1, 2, 12, 8})};
    HoldAgainstPlain(model, inputs);
    const std::vector<Value> expected = EvaluateGraph(model.graph, inputs, RunServices{});
    const Tensor keys = inputs[3].tensor().Clone(), values = inputs[4].tensor().Clone();
    RunOptions options;
    options.place_result = [&](size_t i, DType, const Shape&) { return i == 1 ? keys : i == 2 ? values : Tensor(); };
    const std::vector<Value> got = Session::FromModel(model)->Run(
        std::vector<NamedValue>{{"q", inputs[0]}, {"k", inputs[1]}, {"v", inputs[2]}, {"pk", keys}, {"pv", values}}, {},
        options);
    EXPECT_EQ(got[1].tensor().raw(), keys.raw());
    // Rows behind the new ones stay as they are.
    EXPECT_EQ(std::memcmp(keys.raw(), expected[1].tensor().raw(), 10 * 8 * 2), 0);
  }
}

TEST(WidenHalves, WhatItDoesNotUnderstandStays) {
  const Node neg = MakeNode("Neg", {"x"}, {"y"});
  EXPECT_TRUE(IsAsItWas(MakeModel({MakeInfo("x", DType::kFloat, {2})}, {neg}, {MakeInfo("y")}))) << "no halves";
  EXPECT_TRUE(IsAsItWas(MakeModel({MakeInfo("x", DType::kBFloat16, {2})}, {neg}, {MakeInfo("y", DType::kBFloat16)})));
  EXPECT_TRUE(IsAsItWas(MakeModel({MakeInfo("x", kHalf, {2})}, {MakeNode("Reshape", {"x", "s"}, {"y"})},
                                  {MakeInfo("y", kHalf)}, {testing::Ints("s", {1, 2})})))
      << "nothing is computed";
  Node unknown = MakeNode("Mystery", {"y"}, {"z"});
  unknown.domain = "somebody";
  EXPECT_TRUE(IsAsItWas(MakeModel({MakeInfo("x", kHalf, {2})}, {neg, unknown}, {MakeInfo("z", kHalf)})));
  ValueInfo list = MakeInfo("list");
  list.type = Type::SequenceOf(Type::Tensor(kHalf));
  EXPECT_TRUE(IsAsItWas(MakeModel({list}, {MakeNode("SequenceAt", {"list", "at"}, {"x"}), neg}, {MakeInfo("y", kHalf)},
                                  {MakeStored("at", Tensor::Scalar<int64_t>(0))})));
}

TEST(WidenHalves, MatricesOfProductsAreKeptAsHalves) {
  const Model model =
      MakeModel({MakeInfo("x", kHalf, {5, 150})},
                {MakeNode("MatMul", {"x", "along"}, {"m"}),
                 MakeNode("Gemm", {"m", "across", "b"}, {"g"}, {{"transB", int64_t{1}}}),
                 MakeNode("MatMul", {"g", "both"}, {"p"}), MakeNode("Transpose", {"p"}, {"t"}),
                 MakeNode("MatMul", {"both", "t"}, {"y"})},
                {MakeInfo("y", kHalf)},
                {MakeStored("along", SomeHalves({150, 333})), MakeStored("across", SomeHalves({301, 333})),
                 MakeStored("b", SomeHalves({301})), MakeStored("both", SomeHalves({301, 301}))});
  Model small = model;
  small.graph.nodes.resize(3);
  small.graph.outputs = {MakeInfo("p", kHalf)};
  for (const Model& each : {model, small}) {
    Graph graph = CopyDeep(each).graph;
    Optimize(graph);
    const bool reads_twice = each.graph.nodes.size() > 3;
    std::map<DType, int> matrices;
    for (const StoredTensor& stored : graph.initializers) matrices[stored.dtype] += stored.dims.size() == 2;
    EXPECT_EQ(matrices[kHalf], reads_twice ? 2 : 3);
  }
  SessionOptions plain, bf16;
  plain.optimize = false;
  bf16.precision = Precision::kBf16;
  const std::vector<NamedValue> inputs = {{"x", SomeHalves({5, 150})}};
  const Tensor expected = Session::FromModel(small, plain)->Run(inputs)[0].tensor();
  for (const SessionOptions& options : {SessionOptions(), bf16}) {
    const auto session = Session::FromModel(small, options);
    for (int run = 0; run < 3; ++run) {  // the first packs on the way
      const Tensor got = session->Run(inputs)[0].tensor();
      for (int64_t i = 0; i < got.size(); ++i) {
        const float x = ToFloat(expected.Data<Float16>()[i]), y = ToFloat(got.Data<Float16>()[i]);
        ASSERT_NEAR(x, y, (std::abs(x) + 2000) * (options.precision == Precision::kBf16 ? 0.1f : 4e-3f)) << i;
      }
    }
  }
}

TEST(WidenHalves, ValuesInsideHaveTheirTypesForWhoAsks) {
  const Model model =
      MakeModel({MakeInfo("x", kHalf, {3})},
                {MakeNode("Exp", {"x"}, {"e"}), MakeNode("Tanh", {"e"}, {"t"}), MakeNode("Mul", {"t", "e"}, {"y"})},
                {MakeInfo("y", kHalf)});
  const auto session = Session::FromModel(model);
  const std::vector<NamedValue> inputs = {{"x", Halves({1, -2, 0.5f}, {3})}};
  for (const char* name : {"e", "t", "y", "x"})
    EXPECT_EQ(session->Run(inputs, std::vector<std::string>{name})[0].tensor().dtype(), kHalf) << name;
}

TEST(WidenHalves, SessionsDoIt) {
  const Model model = MakeModel({MakeInfo("x", kHalf, {1, 8, 12, 12})},
                                {MakeNode("Conv", {"x", "w", "b"}, {"c"}), MakeNode("Relu", {"c"}, {"r"}),
                                 MakeNode("GlobalAveragePool", {"r"}, {"y"})},
                                {MakeInfo("y", kHalf)},
                                {MakeStored("w", SomeHalves({16, 8, 3, 3})), MakeStored("b", SomeHalves({16}))});
  SessionOptions plain;
  plain.optimize = false;
  const std::vector<NamedValue> inputs = {{"x", SomeHalves({1, 8, 12, 12})}};
  const Tensor a = Session::FromModel(model, plain)->Run(inputs)[0].tensor();
  const Tensor b = Session::FromModel(model)->Run(inputs)[0].tensor();
  ASSERT_EQ(b.dtype(), kHalf);
  for (int64_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(ToFloat(a.Data<Float16>()[i]), ToFloat(b.Data<Float16>()[i]), 4e-3f) << i;
}

}  // namespace
}  // namespace ferry

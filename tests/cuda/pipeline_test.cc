// Rewrites that suit a GPU, held against the graph they began with on the CPU: none of it needs a device.
#include "providers/cuda/pipeline.h"

#include "gmock/gmock.h"
#include "ops/evaluate.h"
#include "ops/support/cast_tensor.h"
#include "providers/cuda/lower_floats.h"
#include "providers/cuda/stride_attention.h"
#include "tests/cuda/device_test.h"
#include "tests/support/graphs.h"

namespace ferry::cuda {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::MakeNode;
using ::testing::Not;

StoredTensor Whole(const char* name, const std::vector<int64_t>& numbers, const Shape& shape) {
  Tensor tensor(DType::kInt64, shape);
  std::copy(numbers.begin(), numbers.end(), tensor.MutableData<int64_t>());
  return MakeStored(name, tensor);
}

class CudaPipeline : public ::testing::Test {
 protected:
  Graph MakeGraph(const Shape& x, std::vector<Node> nodes, std::vector<StoredTensor> constants) {
    input_ = RandomTensor(DType::kFloat, x, 7);
    known_["x"].type = Type::Tensor(DType::kFloat, ToSymbolic(x));
    Graph graph;
    graph.inputs.push_back(testing::MakeInfo("x", DType::kFloat, ToSymbolic(x)));
    graph.nodes = std::move(nodes);
    graph.initializers = std::move(constants);
    graph.outputs.push_back(testing::MakeInfo("y"));
    return graph;
  }
  Tensor Evaluate(const Graph& graph) {
    const Value inputs[] = {input_};
    return EvaluateGraph(graph, inputs, {})[0].tensor();
  }
  static std::vector<std::string> OpsOf(const Graph& graph) {
    std::vector<std::string> ops;
    for (const Node& node : graph.nodes) ops.push_back(node.op_type);
    return ops;
  }

  Tensor input_;
  FactsByName known_;
};

// Taps 8 pixels away from the middle of 6: one is left of 3×3; of 3×1 taps 4 away, all three.
TEST_F(CudaPipeline, TapsThatAreNeverOnTheImageGo) {
  const std::vector<int64_t> far(2, 8), all(4, 8), across = {1, 4}, beside = {0, 4, 0, 4};
  Graph graph =
      MakeGraph({2, 5, 6, 6},
                {MakeNode("Conv", {"x", "w"}, {"a"}, {Attribute("dilations", far), Attribute("pads", all)}),
                 MakeNode("Conv", {"a", "v"}, {"y"}, {Attribute("dilations", across), Attribute("pads", beside)})},
                {MakeStored("w", RandomTensor(DType::kFloat, {7, 5, 3, 3}, 1)),
                 MakeStored("v", RandomTensor(DType::kFloat, {4, 7, 1, 3}, 2))});
  const Tensor expected = Evaluate(graph);
  Settings settings;
  Rewrite(graph, settings);
  GraphFacts facts;
  LoweredWeights weights;
  const std::shared_ptr<Graph> special = RewriteForShapes(graph, known_, facts, settings, weights);
  std::vector<Shape> filters;
  for (const Node& node : special->nodes)
    if (node.op_type == "NhwcConv") filters.push_back(special->FindInitializer(node.inputs[1])->Get().shape());
  EXPECT_THAT(filters, ElementsAre(Shape{7, 5, 1, 1}, Shape{4, 7, 1, 3}));
  ExpectClose(Evaluate(*special), expected, "trimmed");
}

// As PyTorch writes MultiheadAttention: queries, keys and values packed in rows, heads of several images side by side.
TEST_F(CudaPipeline, AttentionReadsPackedProjections) {
  const int64_t length = 5, batch = 2, heads = 3, size = 16;
  Graph graph = MakeGraph(
      {length, batch, 3 * heads * size},
      {MakeNode("Reshape", {"x", "packed"}, {"p"}),
       MakeNode("Transpose", {"p"}, {"t"}, {Attribute("perm", std::vector<int64_t>{2, 0, 1, 3})}),
       MakeNode("Gather", {"t", "zero"}, {"q0"}), MakeNode("Gather", {"t", "one"}, {"k0"}),
       MakeNode("Gather", {"t", "two"}, {"v0"}), MakeNode("Reshape", {"q0", "flat"}, {"q1"}),
       MakeNode("Reshape", {"k0", "flat"}, {"k1"}), MakeNode("Reshape", {"v0", "flat"}, {"v1"}),
       MakeNode("Transpose", {"q1"}, {"q2"}, {Attribute("perm", std::vector<int64_t>{1, 0, 2})}),
       MakeNode("Transpose", {"k1"}, {"k2"}, {Attribute("perm", std::vector<int64_t>{1, 2, 0})}),
       MakeNode("Transpose", {"v1"}, {"v2"}, {Attribute("perm", std::vector<int64_t>{1, 0, 2})}),
       MakeNode("Reshape", {"q2", "plain"}, {"q"}), MakeNode("Reshape", {"k2", "turned"}, {"k"}),
       MakeNode("Reshape", {"v2", "plain"}, {"v"}),
       MakeNode("FusedAttention", {"q", "k", "v"}, {"a"},
                {Attribute("scale", 0.25f), Attribute("q_form", int64_t{0}), Attribute("k_form", int64_t{2}),
                 Attribute("v_form", int64_t{0}), Attribute("out_form", int64_t{0})}),
       MakeNode("Transpose", {"a"}, {"y"}, {Attribute("perm", std::vector<int64_t>{2, 0, 1, 3})})},
      {Whole("packed", {length, batch, 3, heads * size}, {4}), Whole("flat", {length, batch * heads, size}, {3}),
       Whole("plain", {batch, heads, length, size}, {4}), Whole("turned", {batch, heads, size, length}, {4}),
       Whole("zero", {0}, {}), Whole("one", {1}, {}), Whole("two", {-1}, {})});
  graph.nodes[14].domain = "ferry";
  const Tensor expected = Evaluate(graph);
  GraphFacts facts = InferGraph(graph, known_);
  StrideAttention(graph, facts, true, 9);
  EXPECT_THAT(OpsOf(graph), ElementsAre("StridedAttention"));
  EXPECT_THAT(graph.nodes[0].inputs, ElementsAre("x", "x", "x"));
  ExpectClose(Evaluate(graph), expected, "strided", 1e-5);
}

TEST_F(CudaPipeline, AttentionThatCannotBeReachedByStridesStays) {
  Graph graph =
      MakeGraph({2, 3, 8, 20},
                {MakeNode("FusedAttention", {"x", "x", "x"}, {"y"},
                          {Attribute("scale", 1.0f), Attribute("q_form", int64_t{0}), Attribute("k_form", int64_t{0}),
                           Attribute("v_form", int64_t{0}), Attribute("out_form", int64_t{0})})},
                {});
  graph.nodes[0].domain = "ferry";
  GraphFacts facts = InferGraph(graph, known_);
  StrideAttention(graph, facts, true, 9);  // 20 is no multiple of 16
  EXPECT_THAT(OpsOf(graph), ElementsAre("FusedAttention"));
}

TEST_F(CudaPipeline, ProjectionsOfOneValueAreOneProduct) {
  auto projection = [](const char* weights, const char* bias, const char* out) {
    Node node = MakeNode("FusedMatMul", {"x", weights, bias}, {out});
    node.domain = "ferry";
    return node;
  };
  Graph graph = MakeGraph(
      {4, 8},
      {projection("w0", "b0", "a"), projection("w1", "b1", "b"), MakeNode("Reshape", {"a", "shape"}, {"c"}),
       MakeNode("Reshape", {"b", "shape"}, {"d"}), MakeNode("Add", {"c", "d"}, {"y"})},
      {MakeStored("w0", RandomTensor(DType::kFloat, {8, 6}, 1)),
       MakeStored("w1", RandomTensor(DType::kFloat, {8, 6}, 2)), MakeStored("b0", RandomTensor(DType::kFloat, {6}, 3)),
       MakeStored("b1", RandomTensor(DType::kFloat, {6}, 4)), Whole("shape", {2, 12}, {2})});
  const Tensor expected = Evaluate(graph);
  MergeProjections(graph);
  EXPECT_THAT(OpsOf(graph), ElementsAre("FusedMatMul", "Split", "Reshape", "Reshape", "Add"));
  ExpectClose(Evaluate(graph), expected, "merged", 1e-6);
}

TEST_F(CudaPipeline, FloatsBecomeSmallerInside) {
  Graph graph = MakeGraph({4, 8},
                          {MakeNode("MatMul", {"x", "w"}, {"m"}), MakeNode("Relu", {"m"}, {"r"}),
                           MakeNode("Det", {"r"}, {"d"}), MakeNode("Add", {"r", "d"}, {"y"})},
                          {MakeStored("w", RandomTensor(DType::kFloat, {8, 4}, 1))});
  const Tensor expected = Evaluate(graph);
  GraphFacts facts = InferGraph(graph, known_);
  LoweredWeights weights;
  LowerFloats(graph, facts, DType::kFloat16, weights);
  // What the device has no kernel for is computed in its own type.
  EXPECT_THAT(OpsOf(graph), ElementsAre("Cast", "MatMul", "Relu", "Cast", "Det", "Cast", "Add", "Cast"));
  EXPECT_EQ(facts.Find("m")->type.dtype, DType::kFloat16);
  EXPECT_EQ(facts.Find("y")->type.dtype, DType::kFloat);
  EXPECT_EQ(facts.Find(graph.nodes[1].inputs[1])->constant->dtype(), DType::kFloat16);
  ExpectClose(Evaluate(graph), expected, "float16", 2e-2);
}

TEST_F(CudaPipeline, WeightsAreLoweredOnce) {
  LoweredWeights weights;
  const Tensor weight = RandomTensor(DType::kFloat, {100, 100}, 1);
  EXPECT_EQ(weights.Get(weight, DType::kBFloat16).address(), weights.Get(weight, DType::kBFloat16).address());
  EXPECT_TRUE(Identical(weights.Get(weight, DType::kBFloat16), CastTensor(weight, DType::kBFloat16)));
}

}  // namespace
}  // namespace ferry::cuda

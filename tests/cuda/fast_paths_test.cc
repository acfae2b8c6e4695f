// Steps that have kernels of their own because libraries are slow at them, in whole graphs: on the device against the
// CPU in every precision. The rewrites that make them need no GPU.
#include "engine/session.h"
#include "gmock/gmock.h"
#include "ops/evaluate.h"
#include "providers/cuda/join_casts.h"
#include "providers/cuda/join_scaled.h"
#include "providers/cuda/move_transposes.h"
#include "providers/cuda/patches.h"
#include "providers/cuda/pipeline.h"
#include "providers/cuda/widen_products.h"
#include "tests/cuda/device_test.h"
#include "tests/support/graphs.h"

namespace ferry::cuda {
namespace {

using ::testing::ElementsAre;
using testing::MakeNode;
using Numbers = std::vector<int64_t>;

class FastPaths : public DeviceTest {
 protected:
  // One input x and one result y.
  void ExpectAsOnCpu(const Shape& shape, std::vector<Node> nodes, std::vector<StoredTensor> constants,
                     const std::string& what) {
    Model model = testing::MakeModel({testing::MakeInfo("x", DType::kFloat, ToSymbolic(shape))}, std::move(nodes),
                                     {testing::MakeInfo("y")}, std::move(constants));
    const NamedValue inputs[] = {{"x", RandomTensor(DType::kFloat, shape, 1)}};
    const Tensor expected = Session::FromModel(model, {.threads = 2})->Run(inputs)[0].tensor();
    for (auto [precision, tolerance] : {std::pair{Precision::kFloat32, 2e-5},
                                        {Precision::kTf32, 5e-3},
                                        {Precision::kFp16, 1e-2},
                                        {Precision::kBf16, 8e-2}}) {
      SessionOptions options{.threads = 1, .provider = "cuda"};
      options.precision = precision;
      auto session = Session::FromModel(model, options);
      for (int run = 0; run < 3; ++run)
        ExpectClose(session->Run(inputs)[0].tensor(), expected,
                    Cat(what, " in precision ", static_cast<int>(precision)), tolerance);
    }
  }
  static StoredTensor Weights(const char* name, const Shape& shape, float factor = 1) {
    Tensor tensor = RandomTensor(DType::kFloat, shape, static_cast<uint64_t>(shape.back()) + 5);
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<float>()[i] *= factor;
    return MakeStored(name, tensor);
  }
  static Node Conv(std::vector<std::string> inputs, const char* output, int64_t stride, int64_t pad,
                   int64_t groups = 1) {
    return MakeNode(
        "Conv", std::move(inputs), {output},
        {Attribute("pads", Numbers(4, pad)), Attribute("strides", Numbers(2, stride)), Attribute("group", groups)});
  }
};

TEST_F(FastPaths, FirstLayersAndPatches) {
  ExpectAsOnCpu({2, 3, 19, 22}, {Conv({"x", "w", "b"}, "c", 2, 3), MakeNode("Relu", {"c"}, {"y"})},
                {Weights("w", {16, 3, 7, 7}, 0.1f), Weights("b", {16})}, "a first layer");
  ExpectAsOnCpu({5, 3, 140, 150}, {Conv({"x", "w", "b"}, "c", 1, 3), MakeNode("Relu", {"c"}, {"y"})},
                {Weights("w", {8, 3, 7, 7}, 0.1f), Weights("b", {8})}, "a first layer, some images at a time");
  ExpectAsOnCpu({2, 3, 32, 48}, {Conv({"x", "w", "b"}, "y", 16, 0)},
                {Weights("w", {24, 3, 16, 16}, 0.05f), Weights("b", {24})}, "patches of what is given");
  ExpectAsOnCpu({2, 8, 12, 12},
                {Conv({"x", "v"}, "i", 1, 1), MakeNode("Relu", {"i"}, {"r"}), Conv({"r", "w"}, "y", 2, 0)},
                {Weights("v", {8, 8, 3, 3}, 0.2f), Weights("w", {16, 8, 2, 2}, 0.2f)}, "patches of an image");
}

TEST_F(FastPaths, GroupsAndSingleChannels) {
  for (int64_t stride : {1, 2})
    for (int64_t groups : {3, 6})
      ExpectAsOnCpu({2, 48, 13, 9}, {Conv({"x", "w", "b"}, "c", stride, 1, groups), MakeNode("Relu", {"c"}, {"y"})},
                    {Weights("w", {48, 48 / groups, 3, 3}, 0.2f), Weights("b", {48})}, Cat(groups, " groups"));
  for (int64_t kernel : {3, 5, 7})
    for (int64_t stride : {1, 2})
      ExpectAsOnCpu({4, 64, 47, 51}, {Conv({"x", "w", "b"}, "y", stride, kernel / 2, 64)},
                    {Weights("w", {64, 1, kernel, kernel}, 0.2f), Weights("b", {64})}, Cat("depthwise ", kernel));
}

TEST_F(FastPaths, PoolsAndRows) {
  ExpectAsOnCpu({2, 3, 21, 20},
                {Conv({"x", "w"}, "c", 1, 1),
                 MakeNode("MaxPool", {"c"}, {"y"},
                          {Attribute("kernel_shape", Numbers{3, 3}), Attribute("strides", Numbers{2, 2}),
                           Attribute("pads", Numbers{1, 1, 1, 1})})},
                {Weights("w", {32, 3, 3, 3}, 0.2f)}, "a pool");
  for (int64_t count : {24, 96, 100, 192, 384, 768, 1000, 3000, 20000})
    ExpectAsOnCpu({3, 7, count}, {MakeNode("LayerNormalization", {"x", "s", "b"}, {"y"})},
                  {Weights("s", {count}), Weights("b", {count})}, Cat("rows of ", count));
}

TEST_F(FastPaths, Products) {
  for (int64_t rows : {1, 3, 40})
    ExpectAsOnCpu({rows, 64},
                  {MakeNode("MatMul", {"x", "w"}, {"m"}), MakeNode("Add", {"m", "b"}, {"s"}),
                   MakeNode("Gelu", {"s"}, {"g"}), MakeNode("MatMul", {"g", "v"}, {"y"})},
                  {Weights("w", {64, 96}, 0.2f), Weights("b", {96}), Weights("v", {96, 37}, 0.2f)},
                  Cat("products of ", rows, " rows"));
  for (int64_t columns : {1023, 2051})
    ExpectAsOnCpu({300, 64}, {MakeNode("MatMul", {"x", "w"}, {"y"})}, {Weights("w", {64, columns}, 0.2f)}, "odd rows");
}

TEST_F(FastPaths, JoinedChannels) {
  ExpectAsOnCpu({2, 16, 9, 9},
                {Conv({"x", "a"}, "p", 1, 1), MakeNode("Relu", {"p"}, {"q"}), Conv({"q", "b"}, "r", 1, 1),
                 MakeNode("Concat", {"q", "r", "p"}, {"j"}, {Attribute("axis", int64_t{1})}),
                 MakeNode("BatchNormalization", {"j", "s", "o", "m", "v"}, {"n"}), MakeNode("Relu", {"n"}, {"l"}),
                 Conv({"l", "c"}, "y", 1, 0)},
                {Weights("a", {16, 16, 3, 3}, 0.2f), Weights("b", {32, 16, 3, 3}, 0.2f),
                 Weights("c", {8, 64, 1, 1}, 0.2f), Weights("s", {64}), Weights("o", {64}), Weights("m", {64}),
                 MakeStored("v", Tensor::FromVector<float>(std::vector<float>(64, 0.7f)))},
                "joined channels");
}

TEST(PatchesOf, FewChannelsAndWindowsApart) {
  ConvolutionShape shape;
  shape.batch = 1, shape.channels = 3, shape.features = 8;
  shape.axes[0] = shape.axes[1] = {224, 112, 7, 2, 1, 3, 3};
  EXPECT_TRUE(TakesPatches(shape));
  EXPECT_EQ(PatchPitch(shape), 148);
  EXPECT_EQ(ImagesTogether(shape), 1);
  shape.batch = 32;
  EXPECT_EQ(ImagesTogether(shape), 4);
  shape.batch = 7;  // rather a rest than one by one
  EXPECT_EQ(ImagesTogether(shape), 4);
  shape.batch = 1;
  shape.channels = 64;
  EXPECT_FALSE(TakesPatches(shape));
  shape.axes[0] = shape.axes[1] = {224, 56, 4, 4, 1, 0, 0};
  EXPECT_TRUE(TakesPatches(shape));
  shape.batch = int64_t{1} << 40;  // more than any memory has
  EXPECT_FALSE(TakesPatches(shape));
}

class FastRewrites : public ::testing::Test {
 protected:
  void Make(DType type, std::vector<std::pair<std::string, Shape>> inputs, std::vector<Node> nodes,
            std::vector<StoredTensor> constants, std::vector<std::string> outputs) {
    FactsByName known;
    for (const auto& [name, shape] : inputs) {
      graph_.inputs.push_back(testing::MakeInfo(name, type, ToSymbolic(shape)));
      known[name].type = Type::Tensor(type, ToSymbolic(shape));
      inputs_.push_back(RandomTensor(type, shape, inputs_.size() + 1));
    }
    graph_.nodes = std::move(nodes);
    graph_.initializers = std::move(constants);
    for (const std::string& name : outputs) graph_.outputs.push_back(testing::MakeInfo(name));
    facts_ = InferGraph(graph_, known);
    for (const Value& value : EvaluateGraph(graph_, inputs_, {})) expected_.push_back(value.tensor());
  }
  void ExpectSame(double tolerance) {
    InferNew(graph_, facts_);
    const std::vector<Value> made = EvaluateGraph(graph_, inputs_, {});
    for (size_t i = 0; i < made.size(); ++i) ExpectClose(made[i].tensor(), expected_[i], "rewritten", tolerance);
  }
  std::vector<std::string> Ops() const {
    std::vector<std::string> ops;
    for (const Node& node : graph_.nodes) ops.push_back(node.op_type);
    return ops;
  }
  static StoredTensor Whole(const char* name, const Numbers& numbers) {
    return MakeStored(name, Tensor::FromVector<int64_t>(numbers));
  }
  static Node Fused(std::vector<std::string> inputs, const char* output) {
    Node node = MakeNode("FusedMatMul", std::move(inputs), {output});
    node.domain = kInternalDomain;
    return node;
  }

  Graph graph_;
  GraphFacts facts_;
  std::vector<Value> inputs_;
  std::vector<Tensor> expected_;
};

TEST_F(FastRewrites, TransposesMoveToAttention) {
  Node attention = MakeNode("FusedAttention", {"q", "q", "q"}, {"a"});
  attention.domain = kInternalDomain;
  Make(DType::kFloat, {{"x", {2, 5, 32}}},
       {MakeNode("Transpose", {"x"}, {"t"}, {Attribute("perm", Numbers{1, 0, 2})}), Fused({"t", "w"}, "m"),
        MakeNode("Reshape", {"m", "apart"}, {"p"}),
        MakeNode("Transpose", {"p"}, {"q"}, {Attribute("perm", Numbers{1, 2, 0, 3})}), attention,
        MakeNode("Transpose", {"a"}, {"b"}, {Attribute("perm", Numbers{2, 0, 1, 3})}),
        MakeNode("Reshape", {"b", "rows"}, {"c"}), Fused({"c", "v"}, "d"), MakeNode("Reshape", {"d", "images"}, {"e"}),
        MakeNode("Transpose", {"e"}, {"y"}, {Attribute("perm", Numbers{1, 0, 2})})},
       {Whole("apart", {5, 2, 2, 16}), Whole("rows", {10, 32}), Whole("images", {5, 2, 32}),
        MakeStored("w", RandomTensor(DType::kFloat, {32, 32}, 3)),
        MakeStored("v", RandomTensor(DType::kFloat, {32, 32}, 4))},
       {"y"});
  EXPECT_TRUE(MoveTransposes(graph_, facts_));
  EXPECT_THAT(Ops(), ElementsAre("FusedMatMul", "Transpose", "Reshape", "Transpose", "FusedAttention", "Transpose",
                                 "Reshape", "FusedMatMul", "Reshape"));
  ExpectSame(1e-5);
}

TEST_F(FastRewrites, TransposesStayWhereNoAttentionTakesThem) {
  Make(DType::kFloat, {{"x", {2, 5, 8}}},
       {MakeNode("Transpose", {"x"}, {"t"}, {Attribute("perm", Numbers{1, 0, 2})}), Fused({"t", "w"}, "m"),
        MakeNode("Relu", {"m"}, {"y"})},
       {MakeStored("w", RandomTensor(DType::kFloat, {8, 8}, 3))}, {"y"});
  EXPECT_FALSE(MoveTransposes(graph_, facts_));
}

TEST_F(FastRewrites, CachesAreConvertedWhereTheyAreJoined) {
  const auto half = static_cast<int64_t>(DType::kFloat16), whole = static_cast<int64_t>(DType::kFloat);
  Make(DType::kFloat, {{"past", {1, 2, 3, 8}}, {"now", {1, 2, 1, 8}}},
       {MakeNode("Cast", {"past"}, {"p"}, {Attribute("to", half)}),
        MakeNode("Cast", {"now"}, {"n"}, {Attribute("to", half)}), MakeNode("Neg", {"n"}, {"m"}),
        MakeNode("Concat", {"p", "m"}, {"j"}, {Attribute("axis", int64_t{2})}), MakeNode("Relu", {"j"}, {"y"}),
        MakeNode("Cast", {"j"}, {"z"}, {Attribute("to", whole)})},
       {}, {"y", "z"});
  EXPECT_TRUE(FuseJoinCasts(graph_, facts_));
  EXPECT_THAT(Ops(), ElementsAre("Cast", "Neg", "ElementwiseChain", "Relu", "ElementwiseChain"));
  ExpectSame(1e-3);
}

TEST_F(FastRewrites, ScalingJoinsTheConcatBeforeAConvolution) {
  Node conv =
      MakeNode("NhwcConv", {"j", "w", "", "", "s", "o"}, {"y"}, {Attribute("before", std::vector<float>{1, 0, 0})});
  conv.domain = kInternalDomain;
  Make(DType::kFloat, {{"a", {1, 3, 3, 8}}, {"b", {1, 3, 3, 4}}},
       {MakeNode("Concat", {"a", "b"}, {"j"}, {Attribute("axis", int64_t{3})}), conv},
       {MakeStored("w", RandomTensor(DType::kFloat, {4, 12, 1, 1}, 3)),
        MakeStored("s", RandomTensor(DType::kFloat, {12}, 4)), MakeStored("o", RandomTensor(DType::kFloat, {12}, 5))},
       {"y"});
  EXPECT_TRUE(FuseJoinScaled(graph_, facts_));
  EXPECT_THAT(Ops(), ElementsAre("ElementwiseChain", "NhwcConv"));
  EXPECT_EQ(graph_.nodes[1].inputs.size(), 2u);
  ExpectSame(1e-5);
}

// Two images of two windows each, whose masks differ.
TEST_F(FastRewrites, MasksOfWindowsBecomeOneThatRepeats) {
  Make(DType::kFloat, {{"x", {4, 2, 9, 16}}},
       {MakeNode("Transpose", {"x"}, {"k"}, {Attribute("perm", Numbers{0, 1, 3, 2})}),
        MakeNode("MatMul", {"x", "k"}, {"s"}), MakeNode("Add", {"s", "bias"}, {"b"}),
        MakeNode("Reshape", {"b", "apart"}, {"w"}), MakeNode("Add", {"w", "mask"}, {"m"}),
        MakeNode("Reshape", {"m", "together"}, {"t"}),
        MakeNode("Softmax", {"t"}, {"p"}, {Attribute("axis", int64_t{-1})}), MakeNode("MatMul", {"p", "x"}, {"y"})},
       {MakeStored("bias", RandomTensor(DType::kFloat, {1, 2, 9, 9}, 3)),
        MakeStored("mask", RandomTensor(DType::kFloat, {1, 2, 1, 9, 9}, 4)), Whole("apart", {2, 2, 2, 9, 9}),
        Whole("together", {4, 2, 9, 9})},
       {"y"});
  LoweredWeights weights;
  FactsByName known;
  known["x"].type = Type::Tensor(DType::kFloat, ToSymbolic(Shape{4, 2, 9, 16}));
  graph_ = *RewriteForShapes(graph_, known, facts_, {nullptr, true, DType::kUndefined}, weights);
  EXPECT_THAT(Ops(), ::testing::Contains("StridedAttention"));
  EXPECT_THAT(Ops(), ::testing::Not(::testing::Contains("Softmax")));
  EXPECT_THAT(Ops(), ::testing::Not(::testing::Contains("Expand")));
  ExpectSame(1e-5);
}

TEST_F(FastRewrites, ProductsAreWidenedWithTheirCast) {
  Make(DType::kFloat16, {{"x", {3, 8}}},
       {MakeNode("MatMul", {"x", "w"}, {"m"}),
        MakeNode("Cast", {"m"}, {"y"}, {Attribute("to", static_cast<int64_t>(DType::kFloat))})},
       {MakeStored("w", RandomTensor(DType::kFloat16, {8, 5}, 3))}, {"y"});
  EXPECT_TRUE(WidenProducts(graph_, facts_));
  ASSERT_THAT(Ops(), ElementsAre("ElementwiseChain"));
  EXPECT_TRUE(IsWidenedProduct(graph_.nodes[0]));
  ExpectSame(1e-3);
}

}  // namespace
}  // namespace ferry::cuda

#include "tests/passes/qdq_graphs.h"

namespace ferry {
namespace {

using namespace ::ferry::testing;

constexpr DType kU = DType::kUInt8, kS = DType::kInt8, kF = DType::kFloat;

Graph HoldQuantized(const Model& model, const Tensor& x, float step) {
  Graph graph = CopyDeep(model).graph;
  Optimize(graph);
  std::vector<Value> inputs{Value(x)};
  Tensor expected = EvaluateGraph(model.graph, inputs, RunServices{})[0].tensor();
  ExpectWithinOneStep(EvaluateGraph(graph, inputs, RunServices{})[0].tensor(), expected, step, "optimised");
  return graph;
}

Tensor Image(QdqBuilder& b, Shape shape) { return b.random.Floats(std::move(shape)); }

TEST(FoldQdq, ConvolutionWithBiasAndActivation) {
  for (DType x_type : {kU, kS})
    for (DType w_type : {kU, kS})
      for (bool per_channel : {false, true})
        for (const char* activation : {"", "Relu", "Clip"}) {
          QdqBuilder b(11);
          std::string x = b.Pair("x", 2.0f / 255, x_type, x_type == kU ? 128 : -1);
          std::string w = b.Weight({6, 4, 3, 3}, 0, per_channel, w_type, 0.01f);
          std::string bias = b.Constant(b.random.Floats({6}));
          std::string y = b.Add("Conv", {x, w, bias}, {Attribute("pads", std::vector<int64_t>{1, 1, 1, 1})});
          if (*activation == 'R') y = b.Add("Relu", {y});
          if (*activation == 'C')
            y = b.Add("Clip", {y, b.Constant(Tensor::Scalar(-0.5f)), b.Constant(Tensor::Scalar(2.0f))});
          y = b.Pair(y, 0.03f, x_type, x_type == kU ? 100 : -20);
          b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
          Model model = b.Finish({MakeInfo("x", kF, {Dim::Named("n"), Dim(4), Dim(7), Dim(6)})}, {MakeInfo("y")});
          Graph graph = HoldQuantized(model, Image(b, {2, 4, 7, 6}), 0.03f);
          EXPECT_EQ(Count(graph, "QuantizedNhwcConv"), 1);
          EXPECT_EQ(Count(graph, "Conv") + Count(graph, "Relu") + Count(graph, "Clip"), 0);
        }
}

TEST(FoldQdq, BiasBehindDequantizeLinear) {
  QdqBuilder b(3);
  std::string x = b.Pair("x", 2.0f / 255, kU, 128), w = b.Weight({5, 3}, 0, true, kS, 0.01f);
  Tensor bias = b.random.Numbers<int32_t>({5});
  for (int32_t& value : std::span(bias.MutableData<int32_t>(), 5)) value %= 1000;
  std::string added = b.Add("DequantizeLinear", {b.Constant(bias), b.Constant(Tensor::Scalar(0.0001f))});
  std::string y = b.Add("Gemm", {x, w, added}, {Attribute("transB", int64_t{1})});
  y = b.Pair(y, 0.02f, kU, 120);
  b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
  Model model = b.Finish({MakeInfo("x", kF, {Dim(4), Dim(3)})}, {MakeInfo("y")});
  Graph graph = HoldQuantized(model, Image(b, {4, 3}), 0.02f);
  EXPECT_EQ(Count(graph, "QuantizedMatMul"), 1);
  EXPECT_EQ(Count(graph, "Gemm"), 0);
}

// Integers of the sums' own scale are added to the sums, others become floats.
TEST(FoldQdq, BiasOfTheSumsScaleStaysWhole) {
  for (bool of_sums : {true, false}) {
    QdqBuilder b(4);
    const float x_scale = 2.0f / 255, w_scale = 0.01f, scale = of_sums ? x_scale * w_scale : 0.0001f;
    std::string x = b.Pair("x", x_scale, kU, 128);
    std::string w = b.Add("DequantizeLinear", {b.Constant(Tensor::FromVector(std::vector<int8_t>{5, -7, 127}, {1, 3})),
                                               b.Constant(Tensor::Scalar(w_scale))});
    std::string bias = b.Add("DequantizeLinear", {b.Constant(Tensor::FromVector(std::vector<int32_t>{900})),
                                                  b.Constant(Tensor::Scalar(scale))});
    std::string y = b.Pair(b.Add("Gemm", {x, w, bias}, {Attribute("transB", int64_t{1})}), 0.02f, kU, 120);
    b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
    Model model = b.Finish({MakeInfo("x", kF, {Dim(4), Dim(3)})}, {MakeInfo("y")});
    Graph graph = HoldQuantized(model, Image(b, {4, 3}), 0.02f);
    auto product = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                [](const Node& node) { return node.op_type == "QuantizedMatMul"; });
    ASSERT_NE(product, graph.nodes.end());
    const StoredTensor* added = graph.FindInitializer(product->inputs[3]);
    ASSERT_TRUE(added);
    EXPECT_EQ(added->tensor.dtype(), of_sums ? DType::kInt32 : kF);
  }
}

TEST(FoldQdq, MatMulWithAddedBiasAndWithoutQuantizedResult) {
  QdqBuilder b(5);
  std::string x = b.Pair("x", 2.0f / 255, kU, 128);
  std::string h = b.Add("MatMul", {x, b.Weight({8, 6}, 1, true, kS, 0.01f)});
  h = b.Pair(b.Add("Add", {h, b.Constant(b.random.Floats({6}))}), 0.03f, kU, 90);
  b.nodes.push_back(MakeNode("MatMul", {h, b.Weight({6, 3}, 1, false, kS, 0.01f)}, {"y"}));
  Model model = b.Finish({MakeInfo("x", kF, {Dim(2), Dim(5), Dim(8)})}, {MakeInfo("y")});
  Graph graph = HoldQuantized(model, Image(b, {2, 5, 8}), 0.04f);
  EXPECT_EQ(Count(graph, "QuantizedMatMul"), 2);
  EXPECT_EQ(Count(graph, "MatMul") + Count(graph, "Add"), 0);
}

TEST(FoldQdq, ResidualSumPoolsAndMean) {
  QdqBuilder b(7);
  std::string x = b.Pair("x", 2.0f / 255, kU, 128);
  std::string c = b.Pair(b.Add("Conv", {x, b.Weight({4, 4, 1, 1}, 0, true, kS, 0.01f)}), 0.02f, kU, 128);
  std::string sum = b.Pair(b.Add("Relu", {b.Add("Add", {c, x})}), 0.025f, kU, 3);
  std::string pool =
      b.Add("MaxPool", {sum},
            {Attribute("kernel_shape", std::vector<int64_t>{2, 2}), Attribute("strides", std::vector<int64_t>{2, 2})});
  pool = b.Pair(pool, 0.03f, kU, 1);
  std::string mean = b.Add("ReduceMean", {pool, b.Constant(Tensor::FromVector(std::vector<int64_t>{2, 3}))});
  std::string flat = b.Add("Reshape", {mean, b.Constant(Tensor::FromVector(std::vector<int64_t>{0, -1}))});
  flat = b.Pair(flat, 0.01f, kU, 2);
  b.nodes.push_back(MakeNode("Identity", {flat}, {"y"}));
  Model model = b.Finish({MakeInfo("x", kF, {Dim::Named("n"), Dim(4), Dim(6), Dim(6)})}, {MakeInfo("y")});
  Graph graph = HoldQuantized(model, Image(b, {2, 4, 6, 6}), 0.02f);
  EXPECT_EQ(Count(graph, "QuantizedAdd"), 1);
  EXPECT_EQ(Count(graph, "NhwcMaxPool"), 1);
  EXPECT_EQ(Count(graph, "QuantizedLookup"), 1);
  EXPECT_EQ(Count(graph, "QuantizedMean"), 1);
  EXPECT_EQ(Count(graph, "QuantizeLinear"), 1);
  EXPECT_EQ(Count(graph, "DequantizeLinear"), 1);
  // One for the sum, whose image the convolution reads as it came, and one for the mean's single pixel.
  EXPECT_LE(Count(graph, "Transpose"), 2);
}

TEST(FoldQdq, FunctionsOfOneElementBecomeTables) {
  QdqBuilder b(9);
  std::string x = b.Pair("x", 2.0f / 255, kS, 3);
  std::string y = b.Add("Sigmoid", {b.Add("Mul", {x, b.Constant(Tensor::Scalar(3.0f))})});
  y = b.Pair(y, 1.0f / 255, kU, 0);
  y = b.Pair(b.Add("Transpose", {y}, {Perm({1, 0})}), 1.0f / 200, kU, 5);
  b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
  Model model = b.Finish({MakeInfo("x", kF, {Dim(4), Dim(9)})}, {MakeInfo("y")});
  Graph graph = CopyDeep(model).graph;
  Optimize(graph);
  std::vector<Value> inputs{Value(Image(b, {4, 9}))};
  // Tables are made by the very nodes they replace.
  EXPECT_TRUE(Identical(EvaluateGraph(model.graph, inputs, RunServices{})[0].tensor(),
                        EvaluateGraph(graph, inputs, RunServices{})[0].tensor()));
  EXPECT_EQ(Count(graph, "Sigmoid") + Count(graph, "Mul"), 0);
  EXPECT_EQ(Count(graph, "QuantizedLookup"), 2);
}

TEST(FoldQdq, EveryFunctionOfOneElementBecomesATable) {
  for (const char* op : {"Sin", "PRelu", "Max", "Shrink"}) {
    QdqBuilder b(19);
    std::vector<std::string> inputs{b.Pair("x", 2.0f / 255, kS, 3)};
    if (op == std::string("PRelu") || op == std::string("Max")) inputs.push_back(b.Constant(Tensor::Scalar(-0.25f)));
    std::string y = b.Pair(b.Add(op, inputs), 1.0f / 100, kS, 0);
    b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
    Model model = b.Finish({MakeInfo("x", kF, {Dim(4), Dim(9)})}, {MakeInfo("y")});
    Graph graph = CopyDeep(model).graph;
    Optimize(graph);
    std::vector<Value> image{Value(Image(b, {4, 9}))};
    EXPECT_TRUE(Identical(EvaluateGraph(model.graph, image, RunServices{})[0].tensor(),
                          EvaluateGraph(graph, image, RunServices{})[0].tensor()))
        << op;
    EXPECT_EQ(Count(graph, op), 0);
    EXPECT_EQ(Count(graph, "QuantizedLookup"), 1) << op;
  }
}

// The operators in the order in which they run.
std::vector<std::string> Operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.op_type);
  return names;
}

TEST(FoldQdq, ElementsAreConvertedWhereThereAreFewest) {
  using Names = std::vector<std::string>;
  auto optimized = [](const char* op, const std::vector<int64_t>& argument, bool quantizes) {
    QdqBuilder b(23);
    std::string moved = quantizes ? "x" : b.Dequantize("x", 1.0f / 100, kU, 7);
    moved = b.Add(op, {moved, b.Constant(Tensor::FromVector(argument))});
    if (quantizes) moved = b.Pair(moved, 1.0f / 100, kU, 7);
    b.nodes.back().outputs = {"y"};
    Model model =
        b.Finish({MakeInfo("x", quantizes ? kF : kU, {Dim::Named("n"), Dim(1), Dim(9)})}, {MakeInfo("y", kF)});
    Graph graph = CopyDeep(model).graph;
    Optimize(graph);
    std::vector<Value> inputs{quantizes ? Image(b, {3, 1, 9}) : b.random.Numbers<uint8_t>({3, 1, 9})};
    EXPECT_TRUE(Identical(EvaluateGraph(model.graph, inputs, RunServices{})[0].tensor(),
                          EvaluateGraph(graph, inputs, RunServices{})[0].tensor()));
    return Operators(graph);
  };
  EXPECT_EQ(optimized("Gather", {2, 0}, false), (Names{"Gather", "DequantizeLinear"}));
  EXPECT_EQ(optimized("Tile", {1, 4, 1}, false), (Names{"DequantizeLinear", "Tile"}));
  EXPECT_EQ(optimized("Tile", {1, 4, 1}, true), (Names{"QuantizeLinear", "Tile", "DequantizeLinear"}));
}

TEST(FoldQdq, ConcatBringsPartsToOneScale) {
  QdqBuilder b(13);
  std::string x = b.Quantize("x", 2.0f / 255, kU, 128);
  std::string first = b.Dequantize(x, 2.0f / 255, kU, 128), second = b.Pair(b.Add("Relu", {first}), 1.0f / 255, kU, 0);
  std::string y = b.Pair(b.Add("Concat", {first, second}, {Attribute("axis", int64_t{1})}), 2.0f / 255, kU, 128);
  b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
  Model model = b.Finish({MakeInfo("x", kF, {Dim(3), Dim(5)})}, {MakeInfo("y")});
  Graph graph = HoldQuantized(model, Image(b, {3, 5}), 1e-6f);
  EXPECT_EQ(Count(graph, "Relu"), 0);
  EXPECT_EQ(Count(graph, "Concat"), 1);
  EXPECT_EQ(Count(graph, "DequantizeLinear"), 1);
}

TEST(FoldQdq, QLinearOperators) {
  for (bool biased : {false, true}) {
    QdqBuilder b(15);
    auto scalar = [&](float value) { return b.Constant(Tensor::Scalar(value)); };
    auto zero = [&](DType type, int32_t value) { return b.Constant(b.Byte(type, value)); };
    std::string x = b.Quantize("x", 2.0f / 255, kU, 128);
    std::vector<std::string> inputs = {x,
                                       scalar(2.0f / 255),
                                       zero(kU, 128),
                                       b.Constant(b.random.Numbers<int8_t>({6, 2, 3, 3})),
                                       scalar(0.01f),
                                       zero(kS, 0),
                                       scalar(0.05f),
                                       zero(kU, 77)};
    if (biased) {
      Tensor bias = b.random.Numbers<int32_t>({6});
      for (int32_t& value : std::span(bias.MutableData<int32_t>(), 6)) value %= 10000;
      inputs.push_back(b.Constant(bias));
    }
    std::string y = b.Add("QLinearConv", inputs, {Attribute("group", int64_t{2})});
    y = b.Add("QLinearMatMul", {y, scalar(0.05f), zero(kU, 77), b.Constant(b.random.Numbers<int8_t>({4, 3})),
                                scalar(0.01f), zero(kS, 0), scalar(0.04f), zero(kS, -7)});
    b.nodes.push_back(MakeNode("DequantizeLinear", {y, scalar(0.04f), zero(kS, -7)}, {"y"}));
    Model model = b.Finish({MakeInfo("x", kF, {Dim(1), Dim(4), Dim(6), Dim(6)})}, {MakeInfo("y")});
    Graph graph = HoldQuantized(model, Image(b, {1, 4, 6, 6}), 0.04f);
    EXPECT_EQ(Count(graph, "QuantizedNhwcConv"), 1);
    EXPECT_EQ(Count(graph, "QuantizedMatMul"), 1);
  }
}

// What QGemm is made of: sums of bytes, an addend, a scale, and bytes again or not.
TEST(FoldQdq, ScaledSumsOfBytes) {
  for (bool biased : {false, true})
    for (bool rounds : {false, true}) {
      QdqBuilder b(16);
      std::string x = b.Quantize("x", 2.0f / 255, kU, 128);
      std::string y = b.Add("MatMulInteger", {x, b.Constant(b.random.Numbers<int8_t>({6, 5})),
                                              b.Constant(b.Byte(kU, 128)), b.Constant(b.Byte(kS, 0))});
      Tensor bias = b.random.Numbers<int32_t>({5});
      for (int32_t& value : std::span(bias.MutableData<int32_t>(), 5)) value %= 10000;
      if (biased) y = b.Add("Add", {b.Constant(bias), y});
      y = b.Add("Cast", {y}, {Attribute("to", static_cast<int64_t>(kF))});
      y = b.Add("Mul", {y, b.Constant(Tensor::FromVector<float>({1e-4f, 2e-4f, 3e-4f, 4e-4f, 5e-4f}))});
      if (rounds) y = b.Pair(y, 0.05f, kU, 77);
      b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
      Model model = b.Finish({MakeInfo("x", kF, {Dim(3), Dim(6)})}, {MakeInfo("y")});
      Graph graph = HoldQuantized(model, Image(b, {3, 6}), 0.05f);
      EXPECT_EQ(Count(graph, "QuantizedMatMul"), 1) << biased << rounds;
      EXPECT_EQ(Count(graph, "MatMulInteger"), 0);
    }
}

TEST(FoldQdq, LeavesWhatDoesNotFit) {
  QdqBuilder b(17);
  // A scale that comes with the data, weights whose zero points leave eight bits, a sum that broadcasts.
  std::string x = b.Pair("x", 2.0f / 255, kU, 128);
  Tensor bytes = b.random.Numbers<uint8_t>({3, 4});
  bytes.MutableData<uint8_t>()[0] = 255, bytes.MutableData<uint8_t>()[1] = 0;
  std::string w =
      b.Add("DequantizeLinear", {b.Constant(bytes), b.Constant(Tensor::Scalar(0.01f)), b.Constant(b.Byte(kU, 3))});
  std::string y = b.Add("MatMul", {x, w});
  std::string row = b.Pair("row", 0.1f, kU, 0);
  y = b.Add("Add", {b.Pair(y, 0.02f, kU, 128), row});
  b.nodes.push_back(MakeNode("QuantizeLinear", {y, "scale", b.Constant(b.Byte(kU, 128))}, {"q"}));
  Model model =
      b.Finish({MakeInfo("x", kF, {Dim(2), Dim(3)}), MakeInfo("row", kF, {Dim(4)}), MakeInfo("scale", kF, {})},
               {MakeInfo("q", kU)});
  Graph graph = CopyDeep(model).graph;
  Optimize(graph);
  EXPECT_EQ(Count(graph, "Add"), 1);
  EXPECT_EQ(Count(graph, "QuantizedMatMul"), 0);
  std::vector<Value> inputs{Value(Image(b, {2, 3})), Value(Image(b, {4})), Value(Tensor::Scalar(0.05f))};
  EXPECT_TRUE(Identical(EvaluateGraph(model.graph, inputs, RunServices{})[0].tensor(),
                        EvaluateGraph(graph, inputs, RunServices{})[0].tensor()));
}

// Sums of floats do not wrap around, and so what would is left to floats.
TEST(FoldQdq, SumsBeyondThirtyTwoBitsStayFloats) {
  for (bool by_bias : {true, false})
    for (bool fits : {true, false}) {
      QdqBuilder b(19);
      const int64_t depth = by_bias ? 4 : fits ? 65'000 : 70'000;
      std::string x = b.Pair("x", 1.0f, kU, 0);
      std::string w =
          b.Add("DequantizeLinear",
                {b.Constant(Tensor::FromVector(std::vector<int8_t>(static_cast<size_t>(depth), 127), {depth, 1})),
                 b.Constant(Tensor::Scalar(1.0f))});
      std::vector<std::string> inputs = {x, w};
      if (by_bias)
        inputs.push_back(b.Add("DequantizeLinear",
                               {b.Constant(Tensor::FromVector(std::vector<int32_t>{fits ? 2'000'000'000 : INT32_MAX})),
                                b.Constant(Tensor::Scalar(1.0f))}));
      std::string y = b.Pair(b.Add("Gemm", inputs), 1.3e7f, kU, 0);
      b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
      Model model = b.Finish({MakeInfo("x", kF, {Dim(2), Dim(depth)})}, {MakeInfo("y")});
      Tensor large(kF, {2, depth});
      std::fill_n(large.MutableData<float>(), large.size(), 255.0f);
      EXPECT_EQ(Count(HoldQuantized(model, large, 1.3e7f), "QuantizedMatMul"), fits ? 1 : 0);
    }
}

TEST(FoldQdq, LeavesAddendsAndFactorsOfMoreAxes) {
  QdqBuilder b(23);
  std::string x = b.Pair("x", 2.0f / 255, kU, 128);
  std::string y = b.Add("MatMul", {x, b.Weight({8, 4}, 1, true, kS, 0.01f)});
  y = b.Pair(b.Add("Add", {y, b.Constant(b.random.Floats({1, 4}))}), 0.03f, kU, 90);
  b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
  Model model = b.Finish({MakeInfo("x", kF, {Dim(8)})}, {MakeInfo("y")});
  EXPECT_EQ(Count(HoldQuantized(model, Image(b, {8}), 0.03f), "Add"), 1);

  QdqBuilder scalar(29);
  std::string one = scalar.Pair("x", 2.0f / 255, kU, 128);
  std::string z = scalar.Add("Add", {one, scalar.Constant(Tensor::FromVector(std::vector<float>{0.5f}))});
  scalar.nodes.push_back(MakeNode("Identity", {scalar.Pair(z, 0.03f, kU, 90)}, {"y"}));
  HoldQuantized(scalar.Finish({MakeInfo("x", kF, {})}, {MakeInfo("y")}), Tensor::Scalar(0.25f), 0.03f);
}

}  // namespace
}  // namespace ferry

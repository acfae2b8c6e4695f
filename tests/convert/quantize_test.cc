// Models in fewer bits: each form on small networks, what stays float, and input that does not fit.
#include "convert/quantize/ranges.h"
#include "convert/quantize/workshop.h"
#include "tests/convert/quantize_support.h"

namespace ferry::quantize {
namespace {

// Scores with a mask of -10,000 before a softmax, between products with constant weights.
Model Attention() {
  return MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 6, 16}), MakeInfo("m", DType::kFloat, {Dim::Named("n"), 1, 6})},
      {MakeNode("MatMul", {"x", "wq"}, {"q"}), MakeNode("MatMul", {"x", "wk"}, {"k"}),
       MakeNode("Transpose", {"k"}, {"kt"}, {Attribute("perm", std::vector<int64_t>{0, 2, 1})}),
       MakeNode("MatMul", {"q", "kt"}, {"scores"}), MakeNode("Add", {"scores", "m"}, {"masked"}),
       MakeNode("Softmax", {"masked"}, {"p"}), MakeNode("MatMul", {"p", "x"}, {"o"}),
       MakeNode("MatMul", {"o", "wo"}, {"l"}), MakeNode("Add", {"l", "bo"}, {"y"})},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 6, 4})},
      {MakeStored("wq", Noise({16, 16}, 1, 0.3f)), MakeStored("wk", Noise({16, 16}, 2, 0.3f)),
       MakeStored("wo", Noise({16, 4}, 3)), MakeStored("bo", Noise({4}, 4))},
      17);
}

Tensor Mask(int64_t rows) {
  Tensor mask(DType::kFloat, {rows, 1, 6});
  for (int64_t i = 0; i < mask.size(); ++i) mask.MutableData<float>()[i] = i % 6 >= 3 ? -10000.0f : 0.0f;
  return mask;
}

TEST_F(Quantize, ConvolutionsStayInCodesBetweenLayers) {
  const std::string data = Data({{"x", Noise({64, 3, 8, 8}, 9)}});
  const QuantizedModel made = QuantizeModel(ConvNet(), With(data, QuantizeForm::kStatic));
  ExpectValid(made.model);
  EXPECT_GT(made.report.proof.snr, 28);
  EXPECT_EQ(made.report.layers.size(), 4u);
  for (const LayerReport& layer : made.report.layers) EXPECT_EQ(layer.way, Way::kStatic) << layer.name;
  // Inputs of four layers and of the sum: the sum's own codes are those of the third layer's input.
  EXPECT_EQ(Count(made.model, "QuantizeLinear"), 6);
  EXPECT_EQ(made.model.OpsetOf(""), 17);
}

TEST_F(Quantize, TensorRtGetsZeroPointsOfZeroAndFloatBiases) {
  const std::string data = Data({{"x", Noise({32, 3, 8, 8}, 9)}});
  const QuantizedModel made = QuantizeModel(ConvNet(), With(data, QuantizeForm::kInt8, Reader::kTensorRt));
  ExpectValid(made.model);
  for (const StoredTensor& tensor : made.model.graph.initializers) {
    EXPECT_NE(tensor.dtype, DType::kUInt8) << tensor.name;
    EXPECT_NE(tensor.dtype, DType::kInt32) << tensor.name;
    if (tensor.name.ends_with("_z"))
      for (int8_t zero : tensor.Get().Span<int8_t>()) EXPECT_EQ(zero, 0);
  }
  EXPECT_GT(made.report.proof.snr, 25);
}

// What a convolution has just made is added before anything is rounded; the other addend comes as codes.
TEST_F(Quantize, TensorRtAddsToCodesOfTheSkipBranchOnly) {
  const std::string data = Data({{"x", Noise({32, 3, 8, 8}, 9)}});
  const QuantizedModel made = QuantizeModel(ConvNet(), With(data, QuantizeForm::kInt8, Reader::kTensorRt));
  for (const Node& node : made.model.graph.nodes) {
    if (node.op_type != "Add") continue;
    EXPECT_THAT(node.inputs, Contains("c2"));
    EXPECT_EQ(Decoded(made.model, node), "r1");
  }
  const QuantizedModel here = QuantizeModel(ConvNet(), With(data));
  for (const Node& node : here.model.graph.nodes)
    if (node.op_type == "Add") EXPECT_EQ(Decoded(here.model, node), "r1 c2");
}

// Columns that go together let later weights make up for the rounding of earlier ones.
TEST_F(Quantize, ConvolutionsAreRoundedBySecondOrderWhereItHelps) {
  Tensor weight = Noise({16, 16, 3}, 3, 0.02f);
  for (int64_t i = 0; i < 16; ++i) weight.MutableData<float>()[i * 48 + i * 3 + 1] = 4;  // far above all others
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 16, 12})},
                {MakeNode("Conv", {"x", "w"}, {"y"}, {Attribute("pads", std::vector<int64_t>{1, 1})})},
                {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 16, 12})}, {MakeStored("w", weight)}, 17);
  const Tensor rows = Correlated(64 * 12, 16);
  Tensor x(DType::kFloat, {64, 16, 12});
  for (int64_t i = 0; i < x.size(); ++i)
    x.MutableData<float>()[i] = rows.Data<float>()[(i / 192 * 12 + i % 12) * 16 + i / 12 % 16];
  QuantizeOptions options = With(Data({{"x", x}}), QuantizeForm::kWeights);
  options.bits = 8, options.block = 0;
  options.weights = WeightMethod::kSearch;
  const double nearest = QuantizeModel(model, options).report.proof.snr;
  options.weights = WeightMethod::kGptq;
  EXPECT_GT(QuantizeModel(model, options).report.proof.snr, nearest + 1);
}

TEST_F(Quantize, WeightsKeepToSevenBitsOnRequest) {
  QuantizeOptions options = With(Data({{"x", Noise({32, 3, 8, 8}, 9)}}), QuantizeForm::kStatic);
  options.conventions.seven_bits = true;
  const QuantizedModel made = QuantizeModel(ConvNet(), options);
  ExpectValid(made.model);
  for (const StoredTensor& tensor : made.model.graph.initializers)
    if (tensor.dtype == DType::kInt8)
      for (int8_t code : tensor.Get().Span<int8_t>()) EXPECT_TRUE(code >= -64 && code <= 63) << tensor.name;
  options.nodes = {"c1"};
  EXPECT_EQ(Count(QuantizeModel(ConvNet(), options).model, "QuantizeLinear"), 1);
}

TEST_F(Quantize, OnnxRuntimeGetsWholeBiases) {
  const std::string data = Data({{"x", Noise({32, 3, 8, 8}, 9)}});
  const QuantizedModel made = QuantizeModel(ConvNet(), With(data, QuantizeForm::kStatic, Reader::kOnnxRuntime));
  ExpectValid(made.model);
  int64_t whole = 0;
  for (const StoredTensor& tensor : made.model.graph.initializers) whole += tensor.dtype == DType::kInt32;
  EXPECT_EQ(whole, 4);
}

TEST_F(Quantize, QOperatorsTakeThePlaceOfPairs) {
  const std::string data = Data({{"x", Noise({32, 3, 8, 8}, 9)}});
  QuantizeOptions options = With(data, QuantizeForm::kStatic, Reader::kOnnxRuntime);
  options.qoperator = true;
  const QuantizedModel made = QuantizeModel(ConvNet(), options);
  ExpectValid(made.model);
  EXPECT_GE(Count(made.model, "QLinearConv"), 2);
  EXPECT_GT(made.report.proof.snr, 25);
}

TEST_F(Quantize, MasksAndScoresStayFloat) {
  const std::string data = Data({{"x", Noise({64, 6, 16}, 9)}, {"m", Mask(64)}});
  for (QuantizeForm form : {QuantizeForm::kInt8, QuantizeForm::kStatic}) {
    const QuantizedModel made = QuantizeModel(Attention(), With(data, form));
    ExpectValid(made.model);
    EXPECT_GT(made.report.proof.snr, 25);
    for (const Node& node : made.model.graph.nodes)
      if (node.op_type == "QuantizeLinear") EXPECT_NE(node.inputs[0], "masked");
  }
}

TEST_F(Quantize, DynamicNeedsNoData) {
  const QuantizedModel made = QuantizeModel(Attention(), With("", QuantizeForm::kDynamic));
  ExpectValid(made.model);
  EXPECT_EQ(Count(made.model, "MatMulInteger"), 3);
  EXPECT_EQ(Count(made.model, "DynamicQuantizeLinear"), 2);  // q and k read the same codes
  EXPECT_THAT(made.report.warnings, Contains(HasSubstr("no data")));
}

TEST_F(Quantize, WeightsInBlocksOfFourBits) {
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 70})},
      {MakeNode("MatMul", {"x", "w"}, {"h"}), MakeNode("Relu", {"h"}, {"r"}),
       MakeNode("Gemm", {"r", "v", "b"}, {"y"}, {Attribute("transB", int64_t{1})})},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 6})},
      {MakeStored("w", Noise({70, 64}, 1)), MakeStored("v", Noise({6, 64}, 2)), MakeStored("b", Noise({6}, 3))}, 17);
  const std::string data = Data({{"x", Correlated(800, 70)}});
  QuantizeOptions options = With(data, QuantizeForm::kWeights);
  const QuantizedModel bits = QuantizeModel(model, options);
  ExpectValid(bits.model);
  EXPECT_EQ(Count(bits.model, "MatMulNBits"), 2);
  options.standard_blocks = true;
  const QuantizedModel standard = QuantizeModel(model, options);
  ExpectValid(standard.model);
  EXPECT_EQ(Count(standard.model, "MatMulNBits"), 0);
  EXPECT_EQ(Count(standard.model, "DequantizeLinear"), 2);
  EXPECT_GE(standard.model.OpsetOf(""), 21);
  EXPECT_NEAR(bits.report.proof.snr, standard.report.proof.snr, 0.1);  // the same numbers in other dress
  options.weights = WeightMethod::kNearest;
  options.methods = false;
  // Nearest codes fall below what is let pass without a budget, and layers are lifted; chosen ones hold by themselves.
  const QuantizedModel nearest = QuantizeModel(model, options);
  EXPECT_GT(nearest.report.bytes_after, bits.report.bytes_after);
  EXPECT_GT(bits.report.proof.snr, 24);
  // Too few samples tell nothing of how inputs go together: codes are searched without them.
  options.data = {Data({{"x", Correlated(240, 70)}})};
  options.weights = WeightMethod::kBest;
  EXPECT_GT(QuantizeModel(model, options).report.proof.snr, 20);
}

TEST_F(Quantize, LookupsTakeRowsOfCodes) {
  Tensor ids(DType::kInt64, {40, 7});
  for (int64_t i = 0; i < ids.size(); ++i) ids.MutableData<int64_t>()[i] = i * 37 % 300;
  const Model model = MakeModel({MakeInfo("i", DType::kInt64, {Dim::Named("n"), 7})},
                                {MakeNode("Gather", {"table", "i"}, {"e"}), MakeNode("MatMul", {"e", "w"}, {"y"})},
                                {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 7, 4})},
                                {MakeStored("table", Noise({300, 32}, 1)), MakeStored("w", Noise({32, 4}, 2))}, 17);
  const QuantizedModel made = QuantizeModel(model, With(Data({{"i", ids}})));
  ExpectValid(made.model);
  EXPECT_GT(made.report.proof.snr, 30);
  EXPECT_LT(made.report.bytes_after, made.report.bytes_before / 2);
}

TEST_F(Quantize, TablesThatAreAddedBecomeHalves) {
  const Model model = MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 32, 64})},
                                {MakeNode("Add", {"x", "places"}, {"s"}), MakeNode("MatMul", {"s", "w"}, {"y"})},
                                {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 32, 64})},
                                {MakeStored("places", Noise({32, 64}, 1)), MakeStored("w", Noise({64, 64}, 2))}, 17);
  const std::string data = Data({{"x", Noise({16, 32, 64}, 3)}});
  for (Reader reader : {Reader::kCpu, Reader::kTensorRt}) {
    const QuantizedModel made = QuantizeModel(model, With(data, QuantizeForm::kStatic, reader));
    ExpectValid(made.model);
    int64_t halves = 0;
    for (const StoredTensor& tensor : made.model.graph.initializers) halves += tensor.dtype == DType::kFloat16;
    EXPECT_EQ(halves, reader == Reader::kCpu ? 1 : 0);
    EXPECT_GT(made.report.proof.snr, 30);
  }
}

TEST_F(Quantize, RecurrentWeightsBehindSlicesAreFound) {
  const Tensor whole = Noise({2, 64, 24}, 1, 0.2f);
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {5, Dim::Named("n"), 24})},
      {MakeNode("Slice", {"w", "zero", "one", "zero"}, {"half"}),
       MakeNode("Slice", {"w", "one", "two", "zero"}, {"other"}),
       MakeNode("Concat", {"half", "other"}, {"both"}, {Attribute("axis", int64_t{0})}),
       MakeNode("LSTM", {"x", "both", "r"}, {"h"},
                {Attribute("hidden_size", int64_t{16}), Attribute("direction", std::string("bidirectional"))}),
       MakeNode("ReduceSum", {"h", "axes"}, {"y"}, {Attribute("keepdims", int64_t{0})})},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 16})},
      {MakeStored("w", whole), MakeStored("r", Noise({2, 64, 16}, 2, 0.2f)),
       MakeStored("zero", Tensor::FromVector<int64_t>({0})), MakeStored("one", Tensor::FromVector<int64_t>({1})),
       MakeStored("two", Tensor::FromVector<int64_t>({2})), MakeStored("axes", Tensor::FromVector<int64_t>({0, 1}))},
      17);
  const QuantizedModel made = QuantizeModel(model, With(Data({{"x", Noise({5, 3, 24}, 9)}})));
  ExpectValid(made.model);
  EXPECT_EQ(made.report.layers.at(0).way, Way::kWeights);
  EXPECT_LT(made.report.bytes_after * 2, made.report.bytes_before);
  EXPECT_GT(made.report.proof.snr, 30);
}

TEST_F(Quantize, HalfPrecisionKeepsWhatOverflows) {
  const Model model = MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 8})},
                                {MakeNode("MatMul", {"x", "w"}, {"a"}), MakeNode("Mul", {"a", "large"}, {"b"}),
                                 MakeNode("Div", {"b", "large"}, {"c"}), MakeNode("MatMul", {"c", "w"}, {"y"})},
                                {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 8})},
                                {MakeStored("w", Noise({8, 8}, 1)), MakeStored("large", Tensor::Scalar(30000.0f))}, 17);
  QuantizeOptions options = With(Data({{"x", Noise({32, 8}, 9)}}), QuantizeForm::kFloat16);
  const QuantizedModel made = QuantizeModel(model, options);
  ExpectValid(made.model);
  EXPECT_GT(made.report.proof.snr, 45);
  EXPECT_EQ(made.model.graph.inputs[0].type.dtype, DType::kFloat);
  EXPECT_EQ(made.report.notes.size(), 2u);  // the product and the quotient
  options.half_inputs = true;
  const QuantizedModel inside = QuantizeModel(model, options);
  ExpectValid(inside.model);
  EXPECT_EQ(inside.model.graph.inputs[0].type.dtype, DType::kFloat16);
  EXPECT_EQ(inside.model.graph.outputs[0].type.dtype, DType::kFloat16);
  options.form = QuantizeForm::kBFloat16;
  const QuantizedModel brain = QuantizeModel(model, options);
  ExpectValid(brain.model);
  EXPECT_GT(brain.report.proof.snr, 30);
}

TEST_F(Quantize, SlowFormsAreWarnedOfWithoutDataToo) {
  const QuantizedModel made = QuantizeModel(ConvNet(), With("", QuantizeForm::kFloat16));
  EXPECT_GT(made.report.ms_before, 0);
  EXPECT_GT(made.report.ms_after, 0);
  const bool is_slow = made.report.ms_after > made.report.ms_before * 1.1;
  const bool is_said = std::any_of(made.report.warnings.begin(), made.report.warnings.end(),
                                   [](const std::string& one) { return one.find("slower here") != std::string::npos; });
  EXPECT_EQ(is_said, is_slow);
}

TEST_F(Quantize, RangesDifferByMethod) {
  Tensor x = Noise({64, 16}, 9);
  x.MutableData<float>()[5] = 60;  // one number far out
  const Model model =
      MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 16})}, {MakeNode("MatMul", {"x", "w"}, {"y"})},
                {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 4})}, {MakeStored("w", Noise({16, 4}, 1))}, 17);
  QuantizeOptions options = With(Data({{"x", x}}), QuantizeForm::kStatic);
  options.percentile = 99.5;
  std::map<RangeMethod, double> high;
  for (RangeMethod method :
       {RangeMethod::kMinMax, RangeMethod::kPercentile, RangeMethod::kEntropy, RangeMethod::kMse}) {
    options.ranges = method;
    high[method] = QuantizeModel(model, options).report.layers.at(0).coded_high;
  }
  EXPECT_NEAR(high[RangeMethod::kMinMax], 60, 1);
  EXPECT_LT(high[RangeMethod::kPercentile], 10);
  EXPECT_LE(high[RangeMethod::kMse], 60.5);
}

// Zeros, half of what a Relu gives, are exact in every range: they are no reason to cut the rest off.
TEST_F(Quantize, EntropyDoesNotLookAtZeros) {
  Tensor x = Noise({4, 10000}, 9);
  for (int64_t i = 0; i < x.size(); ++i) x.MutableData<float>()[i] = std::max(0.0f, x.Data<float>()[i]);
  Observation seen;
  seen.Add(x, -2);
  const Coding coding = seen.Choose(RangeMethod::kEntropy, 100, Conventions());
  EXPECT_GT(coding.high(), 0.5f * seen.high());
}

TEST_F(Quantize, ConstantChannelsAndZeroWeights) {
  Model model = ConvNet();
  for (StoredTensor& tensor : model.graph.initializers)
    if (tensor.name == "w2" || tensor.name == "b1")
      tensor = MakeStored(tensor.name, Tensor::Zeros(DType::kFloat, tensor.Get().shape()));
  Tensor x = Tensor::Zeros(DType::kFloat, {16, 3, 8, 8});
  for (int64_t i = 0; i < x.size(); ++i) x.MutableData<float>()[i] = i / 64 % 3 == 0 ? 1.0f : 0.0f;
  const QuantizedModel made = QuantizeModel(model, With(Data({{"x", x}})));
  ExpectValid(made.model);
  EXPECT_TRUE(made.report.proof.finite);
  const QuantizedModel nothing = QuantizeModel(model, With(Data({{"x", Tensor::Zeros(DType::kFloat, {8, 3, 8, 8})}})));
  EXPECT_TRUE(nothing.report.proof.finite);
}

TEST_F(Quantize, SharedWeightsAreWrittenOnce) {
  Model model = ConvNet();
  for (Node& node : model.graph.nodes)
    if (node.outputs[0] == "c3") node.inputs[1] = "w2";
  const QuantizedModel made = QuantizeModel(model, With(Data({{"x", Noise({32, 3, 8, 8}, 9)}}), QuantizeForm::kStatic));
  ExpectValid(made.model);
  int64_t codes = 0;
  for (const StoredTensor& tensor : made.model.graph.initializers)
    codes += tensor.dtype == DType::kInt8 && tensor.Get().rank() == 4;
  EXPECT_EQ(codes, 2);
}

// Layers that share a weight each have it in the precision that was chosen for them.
TEST_F(Quantize, SharedWeightsAreWrittenAsEachReaderWantsThem) {
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 64}), MakeInfo("z", DType::kFloat, {Dim::Named("n"), 64})},
      {MakeNode("MatMul", {"x", "w"}, {"a"}), MakeNode("MatMul", {"z", "w"}, {"b"})},
      {MakeInfo("a", DType::kFloat, {Dim::Named("n"), 64}), MakeInfo("b", DType::kFloat, {Dim::Named("n"), 64})},
      {MakeStored("w", Noise({64, 64}, 1))}, 21);
  const Tensor x = Noise({16, 64}, 2);
  auto answers = [&](const Model& of) {
    return Session::FromModel(of)->Run(std::vector<NamedValue>{{"x", x}, {"z", x}});
  };
  const std::vector<Value> expected = answers(model);
  const Rung four{Way::kWeights, 4, 32}, eight{Way::kWeights, 8, 32}, half{Way::kHalfWeights, 16, 0};
  QuantizeOptions options = With("", QuantizeForm::kWeights);
  for (bool standard : {false, true}) {
    options.standard_blocks = standard;
    Workshop workshop(MakeBase(model), 21, options);
    double before = 0;
    for (const Rung& finer : {four, eight, half}) {
      const Model made = workshop.Write(workshop.MakeScheme({four, finer}, RangeMethod::kMinMax));
      ExpectValid(made);
      const std::vector<Value> actual = answers(made);
      OutputEvidence same, better;
      EXPECT_LT(same.Add(actual[0].tensor(), expected[0].tensor(), 16).snr(), 25);
      const double now = better.Add(actual[1].tensor(), expected[1].tensor(), 16).snr();
      EXPECT_GT(now, before + 3);
      before = now;
    }
    EXPECT_GT(before, 60);
  }
}

TEST_F(Quantize, SamplesOfDifferentShapes) {
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), Dim::Named("t"), 16})}, {MakeNode("MatMul", {"x", "w"}, {"y"})},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), Dim::Named("t"), 4})}, {MakeStored("w", Noise({16, 4}, 1))}, 17);
  QuantizeOptions options = With(Data({{"x", Noise({4, 5, 16}, 1)}}, "a.npz"));
  options.data.push_back(Data({{"x", Noise({7, 3, 16}, 2)}}, "b.npz"));
  EXPECT_EQ(QuantizeModel(model, options).report.samples + QuantizeModel(model, options).report.proof_samples, 11);
  options.data = {folder_.string()};
  EXPECT_GT(QuantizeModel(model, options).report.proof.snr, 30);
}

TEST_F(Quantize, RecordingsMayCountTheInputs) {
  const Tensor x = Noise({8, 3, 8, 8}, 5);
  const auto made = [&](const char* key) {
    return QuantizeModel(ConvNet(), With(Data({{key, x}, {"out0", Noise({8, 5}, 6)}}), QuantizeForm::kStatic));
  };
  EXPECT_EQ(Count(made("in0").model, "QuantizeLinear"), Count(made("x").model, "QuantizeLinear"));
}

TEST_F(Quantize, BodiesAreLeftAloneAndNamed) {
  auto branch = [](const char* weight) {
    auto body = std::make_shared<Graph>();
    body->name = weight;
    body->nodes = {MakeNode("MatMul", {"x", weight}, {std::string("y_") + weight})};
    body->outputs = {MakeInfo(std::string("y_") + weight)};
    return body;
  };
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 16}), MakeInfo("c", DType::kBool, {})},
      {MakeNode("If", {"c"}, {"h"}, {Attribute("then_branch", branch("w")), Attribute("else_branch", branch("v"))}),
       MakeNode("MatMul", {"h", "w"}, {"y"})},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 16})},
      {MakeStored("w", Noise({16, 16}, 1)), MakeStored("v", Noise({16, 16}, 2))}, 17);
  const QuantizedModel made = QuantizeModel(model, With("", QuantizeForm::kDynamic));
  ExpectValid(made.model);
  EXPECT_THAT(made.report.notes, Contains(HasSubstr("2 layers in bodies")));
  EXPECT_EQ(Count(made.model, "MatMulInteger"), 1);
}

TEST_F(Quantize, BadInputIsNamed) {
  Tensor bad = Noise({8, 3, 8, 8}, 9);
  bad.MutableData<float>()[700] = NAN;
  EXPECT_THAT(MessageOf(ConvNet(), With(Data({{"x", bad}}))), HasSubstr("data.npz row 3: input 'x' has NaN"));
  EXPECT_THAT(MessageOf(ConvNet(), With(Data({{"z", bad}}))), HasSubstr("no array for input 'x'; it has: z"));
  EXPECT_THAT(MessageOf(ConvNet(), With(Data({{"x", Noise({8, 4, 8, 8}, 9)}}))), HasSubstr("does not fit"));
  EXPECT_THAT(MessageOf(ConvNet(), With("", QuantizeForm::kStatic)), HasSubstr("give --data"));
  EXPECT_THAT(MessageOf(ConvNet(), With((folder_ / "nowhere.npz").string())), HasSubstr("nowhere.npz"));
  Model infinite = ConvNet();
  infinite.graph.initializers[0] = MakeStored("w1", Noise({8, 3, 3, 3}, 1, INFINITY));
  EXPECT_THAT(MessageOf(infinite, With("", QuantizeForm::kDynamic)), HasSubstr("NaN or an infinity"));
  const std::string data = Data({{"x", Noise({16, 3, 8, 8}, 9)}}, "good.npz");
  const QuantizedModel once = QuantizeModel(ConvNet(), With(data, QuantizeForm::kStatic));
  EXPECT_THAT(MessageOf(once.model, With(data)), HasSubstr("quantised already"));
  QuantizeOptions odd = With(data, QuantizeForm::kWeights);
  odd.block = 24;
  EXPECT_THAT(MessageOf(ConvNet(), odd), HasSubstr("power of two"));
}

TEST_F(Quantize, DataThatDoesNotFitIsNamed) {
  EXPECT_THAT(MessageOf(ConvNet(), With(Data({{"x", Noise({8, 3, 8}, 9)}}))), HasSubstr("does not fit"));
  EXPECT_THAT(MessageOf(ConvNet(), With(Data({{"x", Tensor::Zeros(DType::kInt64, {8, 3, 8, 8})}}))),
              HasSubstr("the model takes"));
  EXPECT_THAT(MessageOf(ConvNet(), With(folder_.string() + "/empty")), HasSubstr("empty"));
  Tensor infinite = Noise({8, 3, 8, 8}, 9);
  infinite.MutableData<float>()[3] = INFINITY;
  EXPECT_THAT(MessageOf(ConvNet(), With(Data({{"x", infinite}}))), HasSubstr("an infinity"));
  QuantizeOptions options = With(Data({{"x", Noise({8, 3, 8, 8}, 9)}, {"labels", Tensor::Zeros(DType::kInt64, {3})}}));
  options.budget = ParseBudget("top1=1%");
  EXPECT_THAT(MessageOf(ConvNet(), options), HasSubstr("one for each row"));
}

// Ranges of one value, channels that never change, and inputs that are all zero, in every form.
TEST_F(Quantize, ZeroRangesGiveFiniteModels) {
  Model model = ConvNet();
  for (StoredTensor& tensor : model.graph.initializers)
    if (tensor.name != "b4") tensor = MakeStored(tensor.name, Tensor::Zeros(DType::kFloat, tensor.Get().shape()));
  const std::string zeros = Data({{"x", Tensor::Zeros(DType::kFloat, {16, 3, 8, 8})}});
  for (QuantizeForm form : {QuantizeForm::kInt8, QuantizeForm::kStatic, QuantizeForm::kDynamic, QuantizeForm::kWeights,
                            QuantizeForm::kFloat16})
    for (Reader reader : {Reader::kCpu, Reader::kTensorRt}) {
      if (reader == Reader::kTensorRt && form == QuantizeForm::kDynamic) continue;
      const QuantizedModel made = QuantizeModel(model, With(zeros, form, reader));
      ExpectValid(made.model);
      EXPECT_TRUE(made.report.proof.finite) << made.report.form;
      EXPECT_LT(made.report.proof.max_rel, 0.01) << made.report.form;
    }
}

TEST_F(Quantize, LoopBodiesAreLeftAlone) {
  auto body = std::make_shared<Graph>();
  body->name = "body";
  body->inputs = {MakeInfo("i", DType::kInt64, {}), MakeInfo("go", DType::kBool, {}), MakeInfo("state")};
  body->nodes = {MakeNode("MatMul", {"state", "w"}, {"next"}), MakeNode("Identity", {"go"}, {"on"})};
  body->outputs = {MakeInfo("on", DType::kBool, {}), MakeInfo("next")};
  const Model model = MakeModel(
      {MakeInfo("x", DType::kFloat, {Dim::Named("n"), 16})},
      {MakeNode("MatMul", {"x", "w"}, {"h"}), MakeNode("Loop", {"count", "", "h"}, {"l"}, {Attribute("body", body)}),
       MakeNode("MatMul", {"l", "v"}, {"y"})},
      {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 16})},
      {MakeStored("w", Noise({16, 16}, 1, 0.25f)), MakeStored("v", Noise({16, 16}, 2, 0.25f)),
       MakeStored("count", Tensor::Scalar(int64_t{2}))},
      17);
  QuantizeOptions options = With(Data({{"x", Noise({64, 16}, 9)}}), QuantizeForm::kStatic);
  options.budget = ParseBudget("snr=25");
  const QuantizedModel made = QuantizeModel(model, options);
  ExpectValid(made.model);
  EXPECT_THAT(made.report.notes, Contains(HasSubstr("1 layer in bodies")));
  EXPECT_GE(made.report.proof.snr, 25);
}

TEST_F(Quantize, EveryFormOfQuantisedModelIsRefused) {
  const std::string data = Data({{"x", Noise({16, 3, 8, 8}, 9)}});
  for (QuantizeForm form : {QuantizeForm::kInt8, QuantizeForm::kStatic, QuantizeForm::kWeights}) {
    QuantizeOptions options = With(data, form);
    const QuantizedModel once = QuantizeModel(ConvNet(), options);
    EXPECT_THAT(MessageOf(once.model, options), HasSubstr("quantised already")) << once.report.form;
  }
  QuantizeOptions options = With(data, QuantizeForm::kStatic);
  options.qoperator = options.conventions.whole_bias = true;
  EXPECT_THAT(MessageOf(QuantizeModel(ConvNet(), options).model, options), HasSubstr("quantised already"));
}

TEST_F(Quantize, ReportSaysWhatWasDone) {
  const QuantizedModel made = QuantizeModel(ConvNet(), With(Data({{"x", Noise({32, 3, 8, 8}, 9)}})));
  const std::string text = ToText(made.report), page = ToHtml(made.report);
  EXPECT_THAT(text, HasSubstr("signal to noise"));
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("Conv_c1"));
  const Json json = Json::Parse(ToJson(made.report).Dump());
  EXPECT_EQ(json.At("layers").AsArray().size(), 4u);
  EXPECT_GT(json.At("proof").At("snr_db").AsDouble(), 20);
}

}  // namespace
}  // namespace ferry::quantize

#include "onnx/reader.h"
#include "tests/doctor/doctor_support.h"

namespace ferry {
namespace {

using namespace testing;

constexpr const char* kLint = "baked-batch";

std::string Networks() { return std::string(FERRY_TEST_DATA) + "/torch-models/"; }

Model OneInput(SymbolicShape shape, std::vector<Node> nodes, std::vector<StoredTensor> initializers,
               SymbolicShape output, int64_t opset = 17) {
  return MakeModel({MakeInfo("x", DType::kFloat, std::move(shape))}, std::move(nodes),
                   {MakeInfo("y", DType::kFloat, std::move(output))}, std::move(initializers), opset);
}

Dim FirstDim(const std::vector<ValueInfo>& values) { return values.at(0).type.shape->at(0); }

// Found, mended, proved at batches 1, 2, 3 and 5; both ends carry the name.
void ExpectFreed(const Model& model) {
  EXPECT_FALSE(Apply(kLint, model).empty());
  Model mended = MendedBy(kLint, model);
  EXPECT_TRUE(FirstDim(mended.graph.inputs).named());
  std::vector<NamedValue> inputs;
  Shape shape{7};
  for (size_t i = 1; i < mended.graph.inputs[0].type.shape->size(); ++i)
    shape.push_back(*mended.graph.inputs[0].type.shape->at(i).value);
  inputs.emplace_back("x", Tensor::Zeros(DType::kFloat, shape));
  EXPECT_NO_THROW(Session::FromModel(mended)->Run(inputs));
}

// Found, and left as it is with a reason that speaks of `node`.
void ExpectRefused(const Model& model, const std::string& node) {
  EXPECT_FALSE(Apply(kLint, model).empty());
  DoctorOptions options;
  options.only = {kLint};
  MendedModel mended = Mend(model, options);
  ASSERT_EQ(mended.mendings.size(), 1u);
  EXPECT_FALSE(mended.mendings[0].applied);
  ASSERT_FALSE(mended.mendings[0].refusals.empty());
  EXPECT_NE(mended.mendings[0].refusals[0].find(node), std::string::npos) << mended.mendings[0].refusals[0];
  EXPECT_TRUE(FirstDim(mended.model.graph.inputs).known());
}

TEST(BakedBatch, FreesInputsAndOutputs) {
  Model model = OneInput({2, 3}, {MakeNode("Relu", {"x"}, {"y"})}, {}, {2, 3});
  ExpectFreed(model);
  Model mended = MendedBy(kLint, model);
  EXPECT_EQ(FirstDim(mended.graph.inputs).symbol, "batch");
  EXPECT_EQ(FirstDim(mended.graph.outputs).symbol, "batch");
}

TEST(BakedBatch, FindsNothingWhereTheBatchIsNamed) {
  Model model = OneInput({Dim::Named("n"), 3}, {MakeNode("Relu", {"x"}, {"y"})}, {}, {Dim::Named("n"), 3});
  EXPECT_TRUE(Apply(kLint, model).empty());
}

TEST(BakedBatch, FindsNothingWhereTheFirstDimensionIsNoBatch) {
  Model model =
      OneInput({3, 8, 8}, {MakeNode("ReduceMean", {"x"}, {"y"}, {Attribute("keepdims", int64_t{0})})}, {}, {});
  EXPECT_TRUE(Apply(kLint, model).empty());
  for (const char* name : {"simple_net", "tv_vit", "hf_gpt2"})
    EXPECT_TRUE(Apply(kLint, ReadModel(Networks() + name + "/torch.onnx")).empty()) << name;
}

TEST(BakedBatch, FreesReshapes) {
  for (int64_t batch : {1, 2, 4}) {
    ExpectFreed(
        OneInput({batch, 4, 6}, {MakeNode("Reshape", {"x", "s"}, {"y"})}, {Ints("s", {batch, 24})}, {batch, 24}));
    ExpectFreed(
        OneInput({batch, 4, 6}, {MakeNode("Reshape", {"x", "s"}, {"y"})}, {Ints("s", {batch, -1})}, {batch, 24}));
    // Tokens of all samples in one row, and back.
    ExpectFreed(OneInput({batch, 4, 6},
                         {MakeNode("Reshape", {"x", "s"}, {"rows"}), MakeNode("Relu", {"rows"}, {"r"}),
                          MakeNode("Reshape", {"r", "t"}, {"y"})},
                         {Ints("s", {batch * 4, 6}), Ints("t", {batch, 4, 6})}, {batch, 4, 6}));
  }
}

TEST(BakedBatch, FreesAttentionWithTheSequenceInFront) {
  constexpr int64_t kBatch = 2, kLength = 3, kHeads = 2, kSize = 4;
  std::vector<int64_t> swap{1, 0, 2};
  Model model =
      OneInput({kBatch, kLength, kHeads * kSize},
               {MakeNode("Transpose", {"x"}, {"front"}, {Attribute("perm", swap)}),
                MakeNode("Reshape", {"front", "heads"}, {"split"}),
                MakeNode("Transpose", {"split"}, {"q"}, {Attribute("perm", swap)}),
                MakeNode("Transpose", {"q"}, {"k"}, {Attribute("perm", std::vector<int64_t>{0, 2, 1})}),
                MakeNode("MatMul", {"q", "k"}, {"scores"}), MakeNode("Softmax", {"scores"}, {"weights"}),
                MakeNode("MatMul", {"weights", "q"}, {"mixed"}),
                MakeNode("Transpose", {"mixed"}, {"back"}, {Attribute("perm", swap)}),
                MakeNode("Reshape", {"back", "flat"}, {"rows"}), MakeNode("MatMul", {"rows", "w"}, {"projected"}),
                MakeNode("Reshape", {"projected", "joined"}, {"sequence"}),
                MakeNode("Transpose", {"sequence"}, {"y"}, {Attribute("perm", swap)})},
               {Ints("heads", {kLength, kBatch * kHeads, kSize}), Ints("flat", {kLength * kBatch, kHeads * kSize}),
                Ints("joined", {kLength, kBatch, kHeads * kSize}), Filled("w", {kHeads * kSize, kHeads * kSize}, 0.1f)},
               {kBatch, kLength, kHeads * kSize});
  EXPECT_EQ(Apply(kLint, model).size(), 4u) << "the input and three shapes";
  ExpectFreed(model);
}

TEST(BakedBatch, FreesExpandSliceAndResize) {
  ExpectFreed(OneInput({2, 1, 4}, {MakeNode("Expand", {"x", "s"}, {"y"})}, {Ints("s", {2, 3, 4})}, {2, 3, 4}));
  ExpectFreed(OneInput({2, 5}, {MakeNode("Slice", {"x", "b", "e", "a"}, {"y"})},
                       {Ints("b", {0, 1}), Ints("e", {2, 4}), Ints("a", {0, 1})}, {2, 3}));
  ExpectFreed(OneInput({2, 1, 4, 4},
                       {MakeNode("Resize", {"x", "", "", "s"}, {"y"}, {Attribute("mode", std::string("nearest"))})},
                       {Ints("s", {2, 1, 8, 8})}, {2, 1, 8, 8}));
}

TEST(BakedBatch, FreesTheSliceOfOldOpsets) {
  Node slice =
      MakeNode("Slice", {"x"}, {"y"},
               {Attribute("starts", std::vector<int64_t>{0, 1}), Attribute("ends", std::vector<int64_t>{2, 4})});
  ExpectFreed(OneInput({2, 5}, {slice}, {}, {2, 3}, 9));
}

TEST(BakedBatch, FreesConstantsThatWereMadeForEverySample) {
  // A class token: the same row for each sample of the batch.
  for (int64_t batch : {1, 2}) {
    ExpectFreed(OneInput({batch, 3, 4}, {MakeNode("Concat", {"token", "x"}, {"y"}, {Attribute("axis", int64_t{1})})},
                         {Filled("token", {batch, 1, 4})}, {batch, 4, 4}));
    ExpectFreed(
        OneInput({batch, 3}, {MakeNode("Add", {"x", "bias"}, {"y"})}, {Filled("bias", {batch, 3})}, {batch, 3}));
  }
}

TEST(BakedBatch, FreesInitialStates) {
  for (int64_t batch : {1, 2}) {
    Node gru = MakeNode("GRU", {"front", "w", "r", "", "", "h"}, {"", "last"}, {Attribute("hidden_size", int64_t{2})});
    gru.name = "gru";
    ExpectFreed(OneInput(
        {batch, 5, 3},
        {MakeNode("Transpose", {"x"}, {"front"}, {Attribute("perm", std::vector<int64_t>{1, 0, 2})}), gru,
         MakeNode("Squeeze", {"last", "zero"}, {"y"})},
        {Filled("w", {1, 6, 3}, 0.2f), Filled("r", {1, 6, 2}, 0.1f), Filled("h", {1, batch, 2}, 0), Ints("zero", {0})},
        {batch, 2}));
  }
}

// As PyTorch's exporter writes nn.LSTM with a state of torch.zeros(1, 4, 2): expanded to the batch that comes.
TEST(BakedBatch, FreesInitialStatesThatAreExpanded) {
  for (Dim batch : {Dim(4), Dim::Named("n")}) {
    Node lstm =
        MakeNode("LSTM", {"front", "w", "r", "", "", "h", "c"}, {"", "last"}, {Attribute("hidden_size", int64_t{2})});
    Model model = OneInput({batch, 5, 3},
                           {MakeNode("Transpose", {"x"}, {"front"}, {Attribute("perm", std::vector<int64_t>{1, 0, 2})}),
                            MakeNode("Shape", {"x"}, {"shape"}), MakeNode("Gather", {"shape", "zero"}, {"samples"}),
                            MakeNode("Concat", {"one", "samples", "two"}, {"sizes"}, {Attribute("axis", int64_t{0})}),
                            MakeNode("Expand", {"h0", "sizes"}, {"h"}), MakeNode("Expand", {"h0", "sizes"}, {"c"}),
                            lstm, MakeNode("Squeeze", {"last", "zero"}, {"y"})},
                           {Filled("w", {1, 8, 3}, 0.2f), Filled("r", {1, 8, 2}, 0.1f), Filled("h0", {1, 4, 2}, 0.3f),
                            Ints("zero", {0}), Ints("one", {1}), Ints("two", {2})},
                           {batch, 2});
    ExpectFreed(model);
  }
}

TEST(BakedBatch, RefusesConstantsThatDifferBetweenSamples) {
  Model model =
      OneInput({2, 2}, {MakeNode("Add", {"x", "bias"}, {"y"})}, {Floats("bias", {1, 2, 3, 4}, {2, 2})}, {2, 2});
  ExpectRefused(model, "Add_y");
}

TEST(BakedBatch, RefusesNetworksThatMixSamples) {
  // The mean over the batch is taken from every sample.
  Attribute axes("axes", std::vector<int64_t>{0});
  ExpectRefused(
      OneInput({2, 3}, {MakeNode("ReduceMean", {"x"}, {"mean"}, {axes}), MakeNode("Sub", {"x", "mean"}, {"y"})}, {},
               {2, 3}),
      "Sub_y");
  // Samples compete with each other.
  ExpectRefused(OneInput({2, 3}, {MakeNode("Softmax", {"x"}, {"y"}, {Attribute("axis", int64_t{0})})}, {}, {2, 3}),
                "Softmax_y");
  // One answer for all, and the first sample only, beside an output that is right.
  std::vector<Node> both{MakeNode("Relu", {"x"}, {"y"}), MakeNode("ReduceMax", {"x"}, {"z"}, {axes})};
  Model model = OneInput({2, 3}, both, {}, {2, 3});
  model.graph.outputs.push_back(MakeInfo("z", DType::kFloat, {1, 3}));
  ExpectRefused(model, "ReduceMax_z");
  model.graph.nodes[1] = MakeNode("Slice", {"x", "b", "e", "a"}, {"z"});
  model.graph.initializers = {Ints("b", {0}), Ints("e", {1}), Ints("a", {0})};
  ExpectRefused(model, "Slice_z");
}

TEST(BakedBatch, FindsASizeInsideWhenTheInputNamesItsBatch) {
  Dim n = Dim::Named("n");
  Model model = OneInput({n, 4, 6}, {MakeNode("Reshape", {"x", "s"}, {"y"})}, {Ints("s", {2, 24})}, {2, 24});
  std::vector<Finding> findings = Apply(kLint, model);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].place.node, "Reshape_y");
  Model mended = MendedBy(kLint, model);
  EXPECT_EQ(FirstDim(mended.graph.inputs).symbol, "n");
}

TEST(BakedBatch, MendsExportsOfPyTorchToEqualItsOutputsAtEveryBatch) {
  for (const char* name : {"simple_net", "conv_bn_dropout"}) {
    DoctorOptions options;
    options.only = {kLint};
    for (const char* io : {"io_1.npz", "io_2.npz", "io_5.npz"}) options.data.push_back(Networks() + name + "/" + io);
    Model model = ReadModel(Networks() + name + "/torch_legacy14.onnx");
    EXPECT_EQ(Apply(kLint, model).size(), 1u);
    MendedModel mended = Mend(model, options);
    ASSERT_EQ(mended.mendings.size(), 1u);
    EXPECT_TRUE(mended.mendings[0].applied);
    size_t recordings = 0;
    for (const ProofStep& step : mended.mendings[0].proof)
      recordings += step.holds && step.what.find("recorded outputs") == 0 && step.max_abs < 1e-5;
    EXPECT_EQ(recordings, 3u) << name;
  }
}

TEST(BakedBatch, MendsAttentionOfPyTorch) {
  Model mended = MendedBy(kLint, ReadModel(Networks() + "mha_cross/torch.onnx"));
  EXPECT_TRUE(FirstDim(mended.graph.outputs).named());
}

}  // namespace
}  // namespace ferry

// `ferry build --verify` on a sample of ONNX's cases and networks; scripts/test_edge has them all.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "base/directory.h"
#include "onnx/writer.h"
#include "tests/cli/run_ferry.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

StoredTensor Levels(const char* name, Shape shape, std::mt19937& random) {
  Tensor levels(DType::kInt8, shape);
  for (int64_t i = 0; i < levels.size(); ++i)
    levels.MutableData<int8_t>()[i] = static_cast<int8_t>(random() % 255 - 127);
  return MakeStored(name, levels);
}

StoredTensor Number(const char* name, float number) { return MakeStored(name, Tensor::Scalar(number)); }

// Depthwise 3×3 over 26 channels and 1×1 to 20, all in 8 bits.
Model EightBits(float scale_between) {
  std::mt19937 random(3);
  auto dequantize = [](const char* x, const char* scale, const char* zero, const char* y) {
    return MakeNode("DequantizeLinear", {x, scale, zero}, {y});
  };
  return MakeModel(
      {MakeInfo("x", DType::kInt8, {1, 26, 9, 7})},
      {dequantize("x", "xs", "xz", "xf"), dequantize("w", "ws", "", "wf"),
       MakeNode("Conv", {"xf", "wf"}, {"a"}, {{"group", int64_t{26}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}}),
       MakeNode("Relu", {"a"}, {"b"}), MakeNode("QuantizeLinear", {"b", "bs", "bz"}, {"c"}),
       dequantize("c", "bs", "bz", "d"), dequantize("v", "ws", "", "vf"), MakeNode("Conv", {"d", "vf"}, {"e"}),
       MakeNode("QuantizeLinear", {"e", "ys", "yz"}, {"y"})},
      {MakeInfo("y", DType::kInt8, {1, 20, 9, 7})},
      {Levels("w", {26, 1, 3, 3}, random), Levels("v", {20, 26, 1, 1}, random), Number("xs", 0.02f),
       Number("ws", 0.01f), Number("bs", scale_between), Number("ys", 0.2f),
       MakeStored("xz", Tensor::Scalar(int8_t{5})), MakeStored("bz", Tensor::Scalar(int8_t{-128})),
       MakeStored("yz", Tensor::Scalar(int8_t{3}))},
      13);
}

// While it lives, this compiles.
class ChosenCompiler {
 public:
  explicit ChosenCompiler(const char* words) {
    if (const char* known = std::getenv("CC")) before_ = known;
    setenv("CC", words, 1);
  }
  ~ChosenCompiler() { before_.empty() ? unsetenv("CC") : setenv("CC", before_.c_str(), 1); }

 private:
  std::string before_;
};

std::string Case(const std::string& name) {
  return std::string(FERRY_TEST_DATA) + "/onnx-node/" + name + "/model.onnx";
}

class BuildCase : public ::testing::TestWithParam<const char*> {};

TEST_P(BuildCase, AnswersAsTheEngineDoes) {
  const Said said = Ferry({"build", Case(GetParam()), "-o", ScratchFolder(), "--name", "net", "--verify"});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
}

INSTANTIATE_TEST_SUITE_P(
    Sample, BuildCase,
    ::testing::Values("test_add_bcast", "test_conv_with_strides_and_asymmetric_padding", "test_gru_defaults",
                      "test_lstm_with_peepholes", "test_maxpool_2d_pads", "test_reduce_l2_keep_dims_example",
                      "test_softmax_axis_1", "test_gather_elements_1", "test_scatternd_add", "test_top_k",
                      "test_attention_4d_causal", "test_resize_downsample_scales_linear", "test_quantizelinear_axis",
                      "test_qlinearconv", "test_if", "test_scan9_sum", "test_cast_FLOAT_to_FLOAT16",
                      "test_einsum_batch_matmul", "test_layer_normalization_2d_axis1", "test_slice_neg_steps",
                      "test_flexattention_score_mod", "test_roialign_mode_max",
                      "test_ai_onnx_ml_tree_ensemble_set_membership", "test_tfidfvectorizer_tf_uniandbigrams_skip5",
                      "test_bernoulli_seed", "test_training_dropout_mask"));

TEST(Build, NetworksAnswerAsTheEngineDoes) {
  for (const char* name : {"simple_net", "conv_bn_dropout", "tv_mobilenet_v3"}) {
    const std::string folder = std::string(FERRY_TEST_DATA) + "/torch-models/" + name;
    const Said said = Ferry({"build", folder + "/torch.onnx", "-o", ScratchFolder(), "--name", name, "--inputs",
                             folder + "/io_1.npz", "--verify"});
    EXPECT_EQ(said.status, 0) << name << ": " << said.out << said.err;
  }
}

TEST(Build, EightBitsAnswerAsTheEngineDoesForEveryTarget) {
  const std::string folder = ScratchFolder(), model = JoinPath(folder, "eight.onnx");
  for (const float scale : {0.05f, 0.00002f}) {
    WriteModel(EightBits(scale), model);
    for (const char* target : {"c99", "x86-64", "arm64"}) {
      std::vector<std::string> words = {"build", model, "-o", folder, "--target", target, "--verify"};
      const Said plain = Ferry(words);
      EXPECT_EQ(plain.status, 0) << target << ": " << plain.out << plain.err;
      const ChosenCompiler native("cc -march=native");
      const Said vectors = Ferry(words);
      EXPECT_EQ(vectors.status, 0) << target << " with vectors: " << vectors.out << vectors.err;
    }
  }
}

TEST(Build, VectorsOfThisMachineAnswerAsTheEngineDoes) {
  const std::string folder = ScratchFolder(), net = std::string(FERRY_TEST_DATA) + "/torch-models/tv_mobilenet_v3";
  const ChosenCompiler native("cc -march=native");
  const Said said =
      Ferry({"build", net + "/torch.onnx", "-o", folder, "--name", "net", "--inputs", net + "/io_1.npz", "--verify"});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
}

TEST(Build, WeightsMayLieInAFileOfTheirOwn) {
  const std::string folder = ScratchFolder(), net = std::string(FERRY_TEST_DATA) + "/torch-models/tv_mobilenet_v3";
  const Said said = Ferry({"build", net + "/torch.onnx", "-o", folder, "--name", "net", "--inputs", net + "/io_1.npz",
                           "--weights-file", "--verify", "--json"});
  ASSERT_EQ(said.status, 0) << said.out << said.err;
  EXPECT_TRUE(IsFile(JoinPath(folder, "net.bin")));
  const Said written =
      Ferry({"build", net + "/torch.onnx", "-o", folder, "--name", "net", "--inputs", net + "/io_1.npz", "--json"});
  EXPECT_LT(said.json().Find("source_bytes")->AsInt(), written.json().Find("source_bytes")->AsInt());
}

TEST(Build, ReportIsJson) {
  const Said said = Ferry({"build", SimpleNet("torch.onnx"), "-o", ScratchFolder(), "--name", "net", "--json"});
  ASSERT_EQ(said.status, 0) << said.err;
  const Json report = said.json();
  EXPECT_EQ(report.Find("multiply_adds")->AsInt(), 208);
  EXPECT_EQ(report.Find("arena_bytes")->AsInt(), 64);
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Build, HeaderSaysWhatTheIntegersStandFor) {
  const std::string folder = ScratchFolder(), model = JoinPath(folder, "eight.onnx");
  WriteModel(EightBits(0.05f), model);
  const Said said = Ferry({"build", model, "-o", folder, "--json"});
  ASSERT_EQ(said.status, 0) << said.err;
  const std::string header = TextOf(JoinPath(folder, "eight.h"));
  for (const char* line :
       {"#define EIGHT_X_COUNT 1638\n", "#define EIGHT_X_SCALE 0.02f ", "#define EIGHT_X_ZERO_POINT 5\n",
        "#define EIGHT_Y_SCALE 0.2f ", "#define EIGHT_Y_ZERO_POINT 3\n"})
    EXPECT_NE(header.find(line), std::string::npos) << line << "is not in\n" << header;
  const Json report = said.json();
  EXPECT_EQ(report.Find("inputs")->AsArray()[0].Find("zero_point")->AsInt(), 5);
  EXPECT_FLOAT_EQ(static_cast<float>(report.Find("outputs")->AsArray()[0].Find("scale")->AsDouble()), 0.2f);
}

TEST(Build, HeaderHasNoScaleWhereTwoAreRead) {
  const std::string folder = ScratchFolder(), model = JoinPath(folder, "two.onnx");
  WriteModel(MakeModel({MakeInfo("x", DType::kInt8, {4})},
                       {MakeNode("DequantizeLinear", {"x", "s"}, {"a"}),
                        MakeNode("DequantizeLinear", {"x", "t"}, {"b"}), MakeNode("Add", {"a", "b"}, {"y"})},
                       {MakeInfo("y", DType::kFloat, {4})}, {Number("s", 0.5f), Number("t", 0.25f)}, 13),
             model);
  const Said said = Ferry({"build", model, "-o", folder, "--verify"});
  ASSERT_EQ(said.status, 0) << said.out << said.err;
  const std::string header = TextOf(JoinPath(folder, "two.h"));
  EXPECT_EQ(header.find("SCALE"), std::string::npos) << header;
  EXPECT_NE(header.find("TWO_X_COUNT 4"), std::string::npos) << header;
}

TEST(Build, CompilerMayHaveOptionsAndSaysTheStack) {
  const ChosenCompiler chosen("gcc -O1");
  const std::vector<std::string> words = {"build",   SimpleNet("torch.onnx"), "-o", ScratchFolder(), "--layers",
                                          "--verify"};
  const Said said = Ferry(words);
  ASSERT_EQ(said.status, 0) << said.out << said.err;
  EXPECT_NE(said.out.find(" bytes (gcc -O1)\n"), std::string::npos) << said.out;
  std::vector<std::string> json = words;
  json.emplace_back("--json");
  const Json report = Ferry(json).json();
  EXPECT_GT(report.Find("stack_bytes")->AsInt(), 0);
  EXPECT_LT(report.Find("stack_bytes")->AsInt(), 1000);
}

TEST(Build, CompilersForOtherMachinesAreNamed) {
  const std::string folder = ScratchFolder(), script = JoinPath(folder, "compiler.sh");
  std::ofstream(script) << "while [ \"$1\" != -o ]; do shift; done\necho for a board >\"$2\"\nchmod +x \"$2\"\n";
  const ChosenCompiler chosen(("sh " + script).c_str());
  const Said said = Ferry({"build", SimpleNet("torch.onnx"), "-o", folder, "--verify"});
  EXPECT_EQ(said.status, 3) << said.out;
  EXPECT_NE(said.err.find("must run here (on a board: --test)"), std::string::npos) << said.err;
}

TEST(Build, LayersAreListedWithoutACompiler) {
  const ChosenCompiler chosen("no_such_compiler");
  const Said said = Ferry({"build", SimpleNet("torch.onnx"), "-o", ScratchFolder(), "--layers"});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(said.out.find("code"), std::string::npos) << said.out;
}

TEST(Build, RefusesWhatCDoesNotHave) {
  const Said said = Ferry({"build", Case("test_string_concat"), "-o", ScratchFolder(), "--verify"});
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("C has only arrays of numbers"), std::string::npos) << said.err;
}

TEST(Build, NumbersWithoutASeedAreRefused) {
  const Said said = Ferry({"build", Case("test_bernoulli"), "-o", ScratchFolder(), "--verify"});
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("give it a seed"), std::string::npos) << said.err;
}

TEST(Build, DrawnNumbersAreConstants) {
  const std::string folder = ScratchFolder(), model = JoinPath(folder, "drawn.onnx");
  WriteModel(
      MakeModel({MakeInfo("x", DType::kFloat, {3, 5})},
                {MakeNode("RandomNormalLike", {"x"}, {"r"}, {{"seed", 7.0f}}), MakeNode("Add", {"x", "r"}, {"y"}),
                 MakeNode("Multinomial", {"y"}, {"k"}, {{"seed", 3.0f}, {"sample_size", int64_t{20}}})},
                {MakeInfo("y", DType::kFloat, {3, 5}), MakeInfo("k", DType::kInt32, {3, 20})}, {}, 15),
      model);
  const Said said = Ferry({"build", model, "-o", folder, "--verify"});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
}

TEST(Build, ScansGoAlongAnyAxis) {
  auto body = std::make_shared<Graph>();
  body->inputs = {MakeInfo("s", DType::kFloat, {2, 4}), MakeInfo("part", DType::kFloat, {2, 4})};
  body->nodes = {MakeNode("Add", {"s", "part"}, {"sum"}), MakeNode("Neg", {"sum"}, {"out"})};
  body->outputs = {MakeInfo("sum", DType::kFloat, {2, 4}), MakeInfo("out", DType::kFloat, {2, 4})};
  const std::string folder = ScratchFolder(), model = JoinPath(folder, "scan.onnx");
  WriteModel(MakeModel({MakeInfo("start", DType::kFloat, {2, 4}), MakeInfo("x", DType::kFloat, {2, 3, 4})},
                       {MakeNode("Scan", {"start", "x"}, {"last", "y"},
                                 {{"body", body},
                                  {"num_scan_inputs", int64_t{1}},
                                  {"scan_input_axes", std::vector<int64_t>{1}},
                                  {"scan_output_axes", std::vector<int64_t>{-1}},
                                  {"scan_input_directions", std::vector<int64_t>{1}}})},
                       {MakeInfo("last", DType::kFloat, {2, 4}), MakeInfo("y", DType::kFloat, {2, 4, 3})}, {}, 17),
             model);
  const Said said = Ferry({"build", model, "-o", folder, "--verify"});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
}

TEST(Build, ScalesAreRoundedAsAsked) {
  const std::string folder = ScratchFolder(), model = JoinPath(folder, "scales.onnx");
  for (const char* mode : {"up", "down", "nearest"})
    for (const int64_t saturate : {0, 1}) {
      WriteModel(MakeModel({MakeInfo("x", DType::kFloat, {7, 9})},
                           {MakeNode("Cast", {"x"}, {"y"},
                                     {{"to", int64_t{24}}, {"round_mode", std::string(mode)}, {"saturate", saturate}})},
                           {MakeInfo("y", DType::kFloat8E8M0, {7, 9})}, {}, 25),
                 model);
      const Said said = Ferry({"build", model, "-o", folder, "--verify"});
      EXPECT_EQ(said.status, 0) << mode << " " << saturate << ": " << said.out << said.err;
    }
}

TEST(Build, FitDoesStepsByStripes) {
  const std::string folder = std::string(FERRY_TEST_DATA) + "/torch-models/tv_efficientnet";
  const std::vector<std::string> words = {"build",    folder + "/torch.onnx", "-o",    ScratchFolder(), "--name", "net",
                                          "--inputs", folder + "/io_1.npz",   "--json"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return Ferry(more);
  };
  const int64_t whole = with({}).json().Find("arena_bytes")->AsInt(), half = whole / 2;
  const Said said = with({"--fit", std::to_string(half), "--verify"});
  ASSERT_EQ(said.status, 0) << said.out << said.err;
  const Json report = said.json();
  EXPECT_LE(report.Find("arena_bytes")->AsInt(), half);
  const Json& run = report.Find("stripes")->AsArray().at(0);
  EXPECT_GT(run.Find("stripes")->AsInt(), 1);
  EXPECT_GT(run.Find("more_multiply_adds")->AsInt(), 0);
}

TEST(Build, RunsOnACortexM) {
  if (std::system("command -v arm-none-eabi-gcc qemu-system-arm >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no compiler and emulator here";
  for (const char* name : {"simple_net", "tv_regnet"}) {
    const std::string folder = std::string(FERRY_TEST_DATA) + "/torch-models/" + name;
    const std::string command = std::string("scripts/test_cortexm ") + FERRY_BINARY + " " + folder +
                                "/torch.onnx --inputs " + folder + "/io_1.npz --fit 16k >/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << name;
  }
}

TEST(Build, FitSaysTheLeast) {
  const Said said = Ferry({"build", SimpleNet("torch.onnx"), "-o", ScratchFolder(), "--fit", "32"});
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("the arena needs 64 bytes, more than 32; stripes of rows"), std::string::npos) << said.err;
  EXPECT_EQ(Ferry({"build", SimpleNet("torch.onnx"), "-o", ScratchFolder(), "--fit", "64"}).status, 0);
}

}  // namespace
}  // namespace ferry

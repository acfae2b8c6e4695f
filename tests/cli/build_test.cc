// `ferry build --verify` on a sample of ONNX's cases and networks; scripts/test_edge has them all.
#include "tests/cli/run_ferry.h"

namespace ferry {
namespace {

std::string Case(const std::string& name) {
  return std::string(FERRY_TEST_DATA) + "/onnx-node/" + name + "/model.onnx";
}

class BuildCase : public ::testing::TestWithParam<const char*> {};

TEST_P(BuildCase, AnswersAsTheEngineDoes) {
  const Said said = Ferry({"build", Case(GetParam()), "-o", ScratchFolder(), "--name", "net", "--verify"});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
}

INSTANTIATE_TEST_SUITE_P(Sample, BuildCase,
                         ::testing::Values("test_add_bcast", "test_conv_with_strides_and_asymmetric_padding",
                                           "test_gru_defaults", "test_lstm_with_peepholes", "test_maxpool_2d_pads",
                                           "test_reduce_l2_keep_dims_example", "test_softmax_axis_1",
                                           "test_gather_elements_1", "test_scatternd_add", "test_top_k",
                                           "test_attention_4d_causal", "test_resize_downsample_scales_linear",
                                           "test_quantizelinear_axis", "test_qlinearconv", "test_if", "test_scan9_sum",
                                           "test_cast_FLOAT_to_FLOAT16", "test_einsum_batch_matmul",
                                           "test_layer_normalization_2d_axis1", "test_slice_neg_steps",
                                           "test_flexattention_score_mod", "test_roialign_mode_max",
                                           "test_ai_onnx_ml_tree_ensemble_set_membership",
                                           "test_tfidfvectorizer_tf_uniandbigrams_skip5"));

TEST(Build, NetworksAnswerAsTheEngineDoes) {
  for (const char* name : {"simple_net", "conv_bn_dropout", "tv_mobilenet_v3"}) {
    const std::string folder = std::string(FERRY_TEST_DATA) + "/torch-models/" + name;
    const Said said = Ferry({"build", folder + "/torch.onnx", "-o", ScratchFolder(), "--name", name, "--inputs",
                             folder + "/io_1.npz", "--verify"});
    EXPECT_EQ(said.status, 0) << name << ": " << said.out << said.err;
  }
}

TEST(Build, ReportIsJson) {
  const Said said = Ferry({"build", SimpleNet("torch.onnx"), "-o", ScratchFolder(), "--name", "net", "--json"});
  ASSERT_EQ(said.status, 0) << said.err;
  const Json report = said.json();
  EXPECT_EQ(report.Find("multiply_adds")->AsInt(), 208);
  EXPECT_EQ(report.Find("arena_bytes")->AsInt(), 64);
}

TEST(Build, RefusesWhatCDoesNotHave) {
  const Said said = Ferry({"build", Case("test_string_concat"), "-o", ScratchFolder(), "--verify"});
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("C has only arrays of numbers"), std::string::npos) << said.err;
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

TEST(Build, FitSaysTheLeast) {
  const Said said = Ferry({"build", SimpleNet("torch.onnx"), "-o", ScratchFolder(), "--fit", "32"});
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("the arena needs 64 bytes, more than 32; stripes of rows"), std::string::npos) << said.err;
  EXPECT_EQ(Ferry({"build", SimpleNet("torch.onnx"), "-o", ScratchFolder(), "--fit", "64"}).status, 0);
}

}  // namespace
}  // namespace ferry

#include <cmath>

#include "doctor/proof.h"
#include "onnx/reader.h"
#include "tests/doctor/doctor_support.h"

namespace ferry {
namespace {

using namespace testing;

constexpr const char* kLint = "training-mode";

std::string Networks() { return std::string(FERRY_TEST_DATA) + "/torch-models/"; }

Model WithDropout(int64_t opset, std::vector<std::string> inputs, std::vector<Attribute> attributes = {},
                  std::vector<StoredTensor> initializers = {}) {
  return MakeModel({MakeInfo("x", DType::kFloat, {4, 8})}, {MakeNode("Dropout", std::move(inputs), {"y"}, attributes)},
                   {MakeInfo("y", DType::kFloat, {4, 8})}, std::move(initializers), opset);
}

StoredTensor Flag(bool value) {
  Tensor tensor(DType::kBool, {});
  *tensor.MutableData<bool>() = value;
  return MakeStored("training", tensor);
}

StoredTensor Ratio(float value) { return MakeStored("ratio", Tensor::Scalar(value)); }

TEST(TrainingMode, FindsDropoutInTheFormOfEveryOpset) {
  EXPECT_EQ(Apply(kLint, WithDropout(6, {"x"})).size(), 1u);
  EXPECT_EQ(Apply(kLint, WithDropout(1, {"x"}, {Attribute("ratio", 0.3f)})).size(), 1u);
  for (int64_t opset : {12, 13, 22, 28}) {
    Model model = WithDropout(opset, {"x", "ratio", "training"}, {}, {Ratio(0.5f), Flag(true)});
    std::vector<Finding> findings = Apply(kLint, model);
    ASSERT_EQ(findings.size(), 1u) << opset;
    EXPECT_EQ(findings[0].place.node, "Dropout_y");
    EXPECT_EQ(findings[0].severity, Severity::kWarning);
    EXPECT_TRUE(findings[0].fixable);
    EXPECT_FALSE(findings[0].remedy.empty());
  }
}

TEST(TrainingMode, LeavesDropoutInInferenceFormAlone) {
  EXPECT_TRUE(Apply(kLint, WithDropout(6, {"x"}, {Attribute("is_test", int64_t{1})})).empty());
  EXPECT_TRUE(Apply(kLint, WithDropout(7, {"x"}, {Attribute("ratio", 0.5f)})).empty());
  EXPECT_TRUE(Apply(kLint, WithDropout(10, {"x"})).empty());
  EXPECT_TRUE(Apply(kLint, WithDropout(13, {"x"})).empty());
  EXPECT_TRUE(Apply(kLint, WithDropout(13, {"x", "ratio"}, {}, {Ratio(0.5f)})).empty());
  EXPECT_TRUE(Apply(kLint, WithDropout(13, {"x", "ratio", "training"}, {}, {Ratio(0.5f), Flag(false)})).empty());
  EXPECT_TRUE(Apply(kLint, WithDropout(13, {"x", "ratio", "training"}, {}, {Ratio(0), Flag(true)})).empty());
}

TEST(TrainingMode, SeesATrainingModeThatIsAConstantNode) {
  Attribute value("value", std::make_shared<StoredTensor>(Flag(true)));
  Model model = WithDropout(13, {"x", "", "training"});
  model.graph.nodes.insert(model.graph.nodes.begin(), MakeNode("Constant", {}, {"training"}, {value}));
  EXPECT_EQ(Apply(kLint, model).size(), 1u);
  Model mended = MendedBy(kLint, model);
  EXPECT_EQ(mended.graph.nodes.size(), 1u) << "the constant that nobody reads any more is gone";
}

TEST(TrainingMode, FindsATrainingModeThatTheCallerDecides) {
  Model model = WithDropout(13, {"x", "", "training"});
  model.graph.inputs.push_back(MakeInfo("training", DType::kBool, {}));
  EXPECT_EQ(Apply(kLint, model).size(), 1u);
}

TEST(TrainingMode, BringsOldDropoutIntoInferenceForm) {
  Model mended = MendedBy(kLint, WithDropout(6, {"x"}));
  EXPECT_EQ(mended.graph.nodes[0].Int("is_test", 0), 1);
}

Model WithBatchNorm(int64_t opset, size_t outputs, std::vector<Attribute> attributes = {}) {
  static const char* const kNames[] = {"y", "mean_out", "var_out", "saved_mean", "saved_var"};
  Node node = MakeNode("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {}, std::move(attributes));
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(kNames[i]);
  node.name = "norm";
  return MakeModel({MakeInfo("x", DType::kFloat, {4, 2, 3})}, {node}, {MakeInfo("y", DType::kFloat, {4, 2, 3})},
                   {Floats("scale", {1, 2}), Floats("bias", {0, 1}), Floats("mean", {0.5f, -1}), Floats("var", {1, 4})},
                   opset);
}

TEST(TrainingMode, FindsBatchNormalizationInTheFormOfEveryOpset) {
  Attribute momentum("momentum", 0.9f), training("training_mode", int64_t{1});
  EXPECT_EQ(Apply(kLint, WithBatchNorm(6, 5)).size(), 1u);
  EXPECT_EQ(Apply(kLint, WithBatchNorm(6, 1)).size(), 1u) << "is_test is 0 when it is not there";
  EXPECT_EQ(Apply(kLint, WithBatchNorm(7, 5, {momentum, Attribute("spatial", int64_t{1})})).size(), 1u);
  EXPECT_EQ(Apply(kLint, WithBatchNorm(9, 5, {momentum})).size(), 1u);
  EXPECT_EQ(Apply(kLint, WithBatchNorm(14, 3, {training})).size(), 1u);
  EXPECT_EQ(Apply(kLint, WithBatchNorm(15, 3, {training})).size(), 1u);
}

TEST(TrainingMode, LeavesBatchNormalizationInInferenceFormAlone) {
  EXPECT_TRUE(Apply(kLint, WithBatchNorm(6, 1, {Attribute("is_test", int64_t{1})})).empty());
  EXPECT_TRUE(Apply(kLint, WithBatchNorm(7, 1)).empty());
  EXPECT_TRUE(Apply(kLint, WithBatchNorm(9, 1, {Attribute("momentum", 0.9f)})).empty());
  EXPECT_TRUE(Apply(kLint, WithBatchNorm(15, 1)).empty());
  EXPECT_TRUE(Apply(kLint, WithBatchNorm(15, 1, {Attribute("training_mode", int64_t{0})})).empty());
}

TEST(TrainingMode, MendsBatchNormalizationToUseRunningStatistics) {
  std::vector<Model> models = {WithBatchNorm(6, 5), WithBatchNorm(7, 5), WithBatchNorm(9, 5),
                               WithBatchNorm(15, 3, {Attribute("training_mode", int64_t{1})})};
  for (const Model& model : models) {
    Model mended = MendedBy(kLint, model);
    EXPECT_EQ(mended.graph.nodes[0].outputs.size(), 1u);
    std::vector<float> ones(24, 1.0f);
    std::vector<NamedValue> inputs{{"x", Tensor::FromVector(ones, {4, 2, 3})}};
    std::vector<Value> outputs = Session::FromModel(mended)->Run(inputs);
    auto y = outputs[0].tensor().Span<float>();
    EXPECT_NEAR(y[0], (1 - 0.5) / std::sqrt(1 + 1e-5), 1e-5);
    EXPECT_NEAR(y[3], (1 + 1) / std::sqrt(4 + 1e-5) * 2 + 1, 1e-5);
  }
}

TEST(TrainingMode, RemovesOutputsThatHoldRunningStatistics) {
  Model model = WithBatchNorm(15, 3, {Attribute("training_mode", int64_t{1})});
  model.graph.outputs.push_back(MakeInfo("mean_out", DType::kFloat, {2}));
  std::vector<Finding> findings = Apply(kLint, model);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].place.value, "mean_out");
  Model mended = MendedBy(kLint, model);
  ASSERT_EQ(mended.graph.outputs.size(), 1u);
  EXPECT_EQ(mended.graph.outputs[0].name, "y");
}

TEST(TrainingMode, GivesOtherReadersTheStatisticsOfInference) {
  Model model = WithBatchNorm(15, 3, {Attribute("training_mode", int64_t{1})});
  model.graph.nodes.push_back(MakeNode("Neg", {"mean_out"}, {"negative"}));
  model.graph.outputs.push_back(MakeInfo("negative", DType::kFloat, {2}));
  Model mended = MendedBy(kLint, model);
  std::vector<NamedValue> inputs{{"x", Tensor::Zeros(DType::kFloat, {4, 2, 3})}};
  std::vector<Value> outputs = Session::FromModel(mended)->Run(inputs, std::vector<std::string>{"negative"});
  EXPECT_EQ(outputs[0].tensor().Span<float>()[1], 1.0f);
}

TEST(TrainingMode, MendsAnExportThatEqualsEvaluationInPyTorch) {
  Model model = ReadModel(Networks() + "conv_bn_dropout/torch_train_mode.onnx");
  std::vector<Finding> findings = Apply(kLint, model);
  EXPECT_EQ(findings.size(), 2u) << Listing(findings);
  DoctorOptions options;
  options.data = {Networks() + "conv_bn_dropout/io_2.npz"};
  options.only = {kLint};
  MendedModel mended = Mend(model, options);
  ASSERT_EQ(mended.mendings.size(), 1u);
  bool held_against_recording = false;
  for (const ProofStep& step : mended.mendings[0].proof)
    held_against_recording |= step.what == "recorded outputs of 'io_2.npz'" && step.holds && step.max_abs < 1e-5;
  EXPECT_TRUE(held_against_recording);
}

TEST(TrainingMode, FindsNothingInExportsOfEvaluation) {
  for (const char* name : {"conv_bn_dropout", "hf_bert", "hf_gpt2", "lstm_tagger", "tv_densenet", "tv_efficientnet",
                           "tv_swin", "transformer_encoder", "unet_small"}) {
    Model model = ReadModel(Networks() + name + "/torch.onnx");
    EXPECT_TRUE(Apply(kLint, model).empty()) << name << Listing(Apply(kLint, model));
    EXPECT_TRUE(Apply("random-operator", model).empty()) << name;
  }
}

TEST(RandomOperator, IsFoundWhereverItIs) {
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {2})},
                          {MakeNode("RandomUniformLike", {"x"}, {"noise"}), MakeNode("Add", {"x", "noise"}, {"y"})},
                          {MakeInfo("y", DType::kFloat, {2})}, {}, 20);
  std::vector<Finding> findings = Apply("random-operator", model);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].place.node, "RandomUniformLike_noise");
  model.graph.nodes[0].op_type = "Abs";
  EXPECT_TRUE(Apply("random-operator", model).empty());
}

}  // namespace
}  // namespace ferry

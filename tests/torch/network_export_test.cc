// Whole networks through everything that 'ferry export' does: lowering, simplification, conversion, check.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "convert/export_model.h"
#include "onnx/reader.h"
#include "tests/torch/export_case.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

fs::path Networks() { return fs::path(FERRY_TEST_DATA) / "torch-models"; }
std::string Program(const char* name, const char* file = "model.pt2") { return (Networks() / name / file).string(); }

std::vector<fs::path> AllNetworks() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(Networks()))
    if (fs::exists(entry.path() / "model.pt2")) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

class ExportAtOpset : public testing::TestWithParam<int> {};

TEST_P(ExportAtOpset, EveryNetworkIsEqual) {
  torch::ExportOptions options;
  options.opset = GetParam();
  for (const fs::path& folder : AllNetworks()) {
    std::vector<std::string> recordings;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".npz") recordings.push_back(entry.path().string());
    torch::CaseOutcome outcome = torch::RunExportCase((folder / "model.pt2").string(), recordings, options);
    EXPECT_EQ(outcome.kind, torch::CaseOutcome::Kind::kEqual) << folder.filename() << ": " << outcome.reason;
  }
}
INSTANTIATE_TEST_SUITE_P(Opsets, ExportAtOpset, testing::Values(11, 13, 15, 17, 18, 20, 23, 28));

// PyTorch's own exports of the same programs are the measure.
TEST(NetworkExport, GraphsAreLean) {
  for (const fs::path& folder : AllNetworks()) {
    if (!fs::exists(folder / "torch.onnx")) continue;
    size_t theirs = ReadModel((folder / "torch.onnx").string()).graph.nodes.size();
    size_t ours = ExportModel((folder / "model.pt2").string()).model.graph.nodes.size();
    EXPECT_LE(static_cast<double>(ours), 1.1 * static_cast<double>(theirs)) << folder.filename();
  }
}

TEST(NetworkExport, KeepsNamesOfParametersAndDimensions) {
  Model model = ExportModel(Program("simple_net")).model;
  EXPECT_NE(model.graph.FindInitializer("fc1.weight"), nullptr);
  EXPECT_NE(model.graph.FindInitializer("fc2.bias"), nullptr);
  EXPECT_TRUE((*model.graph.inputs.at(0).type.shape)[0].named());
  EXPECT_EQ(ToText((*model.graph.inputs[0].type.shape)[0]), ToText((*model.graph.outputs.at(0).type.shape)[0]));
}

TEST(NetworkExport, TakesNames) {
  torch::ExportOptions options;
  options.input_names = {"features"};
  options.output_names = {"logits"};
  options.dynamic = {{"features", 0, "batch"}};
  Model model = ExportModel(Program("simple_net"), options).model;
  EXPECT_EQ(model.graph.inputs.at(0).name, "features");
  EXPECT_EQ(model.graph.outputs.at(0).name, "logits");
  EXPECT_EQ(ToText(model.graph.outputs[0].type), "float[batch, 3]");
  options.output_names.push_back("one too many");
  EXPECT_THROW(ExportModel(Program("simple_net"), options), Error);
}

TEST(NetworkExport, OpensAFixedBatch) {
  torch::Exported fixed = ExportModel(Program("simple_net_fixed"));
  ASSERT_EQ(fixed.warnings.size(), 1u);
  EXPECT_NE(fixed.warnings[0].find("dynamic_shapes"), std::string::npos);
  torch::ExportOptions options;
  options.dynamic = {{"x", 0, "batch"}};
  torch::Exported open = ExportModel(Program("simple_net_fixed"), options);
  EXPECT_TRUE(open.warnings.empty());
  EXPECT_EQ(ToText(open.model.graph.outputs.at(0).type), "float[batch, 3]");
}

TEST(NetworkExport, RefusesWhatCannotBeOpened) {
  torch::ExportOptions options;
  options.dynamic = {{"x", 1, "features"}};  // the weights have 10 columns
  EXPECT_THROW(ExportModel(Program("simple_net_fixed"), options), Error);
  options.dynamic = {{"x", 7, "batch"}};
  EXPECT_THROW(ExportModel(Program("simple_net_fixed"), options), Error);
  options.dynamic = {{"nobody", 0, "batch"}};
  EXPECT_THROW(ExportModel(Program("simple_net_fixed"), options), Error);
}

TEST(NetworkExport, TrainingModeIsTheUsersChoice) {
  std::string program = Program("conv_bn_dropout", "model_train_mode.pt2");
  std::string recording = (Networks() / "conv_bn_dropout" / "io_2.npz").string();
  try {
    ExportModel(program);
    ADD_FAILURE() << "a program in training mode was exported";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(error.message().find("f.1"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("model.eval()"), std::string::npos);
  }
  torch::ExportOptions options;
  options.training = torch::LowerOptions::Training::kConvert;
  EXPECT_EQ(torch::RunExportCase(program, {recording}, options).kind, torch::CaseOutcome::Kind::kEqual);
  options.training = torch::LowerOptions::Training::kKeep;
  const Graph graph = ExportModel(program, options).model.graph;
  EXPECT_TRUE(
      std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op_type == "Dropout"; }));
}

TEST(NetworkExport, FoldsOnlyWhenAsked) {
  auto count = [](const torch::ExportOptions& options, std::string_view op_type) {
    Model model = ExportModel(Program("conv_bn_dropout"), options).model;
    return std::count_if(model.graph.nodes.begin(), model.graph.nodes.end(),
                         [&](const Node& node) { return node.op_type == op_type; });
  };
  torch::ExportOptions plain;
  plain.fold = false;
  EXPECT_EQ(count({}, "BatchNormalization"), 0);
  EXPECT_EQ(count(plain, "BatchNormalization"), 1);
}

TEST(NetworkExport, TracesOnlyWhenAsked) {
  auto metadata = [](bool keep) {
    torch::ExportOptions options;
    options.keep_trace = keep;
    size_t entries = 0;
    for (const Node& node : ExportModel(Program("simple_net"), options).model.graph.nodes)
      entries += node.metadata.size();
    return entries;
  };
  EXPECT_EQ(metadata(false), 0u);
  EXPECT_GT(metadata(true), 0u);
}

}  // namespace
}  // namespace ferry

#include "doctor/lint.h"
#include "onnx/writer.h"
#include "tests/cli/run_ferry.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

std::string Network(const std::string& file) { return std::string(FERRY_TEST_DATA) + "/torch-models/" + file; }

TEST(Doctor, HasNothingAgainstAGoodModel) {
  Said said = Ferry({"doctor", SimpleNet("torch.onnx")});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
  Json json = Ferry({"doctor", SimpleNet("torch.onnx"), "--json"}).json();
  EXPECT_TRUE(json.At("good").AsBool());
}

TEST(Doctor, FindsTrainingModeAndMendsItToWhatPyTorchAnswers) {
  std::string mended = ScratchFolder() + "/mended.onnx";
  std::string model = Network("conv_bn_dropout/torch_train_mode.onnx");
  Said said = Ferry({"doctor", model});
  EXPECT_EQ(said.status, 1);
  EXPECT_NE(said.out.find("[training-mode]"), std::string::npos) << said.out;
  said = Ferry({"doctor", model, "--fix", mended});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
  EXPECT_NE(said.out.find("proof:"), std::string::npos);
  for (const char* io : {"io_1.npz", "io_2.npz", "io_5.npz"}) {
    Said compared = Ferry({"compare", mended, "--data", Network(std::string("conv_bn_dropout/") + io)});
    EXPECT_EQ(compared.status, 0) << compared.out << compared.err;
  }
}

TEST(Doctor, FreesABakedBatch) {
  std::string mended = ScratchFolder() + "/mended.onnx";
  Said said = Ferry({"doctor", SimpleNet("torch_legacy14.onnx"), "--fix", mended, "--json"});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
  Json json = said.json();
  EXPECT_FALSE(json.At("good").AsBool());
  EXPECT_TRUE(json.At("left").AsArray().empty());
  const Json& mending = json.At("mendings").AsArray().at(0);
  EXPECT_EQ(mending.At("lint").AsString(), "baked-batch");
  EXPECT_TRUE(mending.At("applied").AsBool());
  EXPECT_GE(mending.At("proof").AsArray().size(), 4u);
  for (const char* io : {"io_1.npz", "io_2.npz", "io_5.npz"})
    EXPECT_EQ(Ferry({"compare", mended, "--data", SimpleNet(io)}).status, 0) << io;
}

TEST(Doctor, PrintsFindingsForMachines) {
  Json json = Ferry({"doctor", SimpleNet("torch_legacy14.onnx"), "--json"}).json();
  const Json& finding = json.At("findings").AsArray().at(0);
  for (const char* key : {"lint", "severity", "message", "evidence", "remedy", "fixable", "value"})
    EXPECT_NE(finding.Find(key), nullptr) << key;
  Said said = Ferry({"doctor", SimpleNet("torch_legacy14.onnx"), "--sarif"});
  EXPECT_EQ(said.status, 1);
  const Json run = said.json().At("runs").AsArray().at(0);
  EXPECT_EQ(run.At("results").AsArray().at(0).At("ruleId").AsString(), "baked-batch");
  EXPECT_EQ(run.At("tool").At("driver").At("rules").AsArray().size(), AllLints().size());
}

TEST(Doctor, AppliesOneLintOrAll) {
  Said said = Ferry({"doctor", Network("conv_bn_dropout/torch_train_mode.onnx"), "--lint", "baked-batch"});
  EXPECT_EQ(said.out.find("[training-mode]"), std::string::npos) << said.out;
  said = Ferry({"doctor", SimpleNet("torch.onnx"), "--lint", "baked-bach"});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
  EXPECT_EQ(Ferry({"doctor", SimpleNet("torch.onnx"), "--target", "abacus"}).status, 2);
}

TEST(Doctor, ListsItsLintsAndDocumentsThem) {
  Said said = Ferry({"doctor", "--list"});
  EXPECT_EQ(said.status, 0);
  std::string page = ReadText("docs/doctor.md");
  for (const Lint* lint : AllLints()) {
    EXPECT_NE(said.out.find(lint->name), std::string::npos) << lint->name;
    EXPECT_NE(page.find("### " + std::string(lint->name) + "\n"), std::string::npos) << lint->name;
  }
}

TEST(Doctor, TakesSeveralRecordings) {
  Said said = Ferry({"doctor", SimpleNet("torch_legacy14.onnx"), "--data", SimpleNet("io_1.npz"), SimpleNet("io_2.npz"),
                     SimpleNet("io_5.npz"), "--fix", ScratchFolder() + "/mended.onnx"});
  EXPECT_EQ(said.status, 0) << said.err;
  for (const char* io : {"io_1.npz", "io_2.npz", "io_5.npz"})
    EXPECT_NE(said.out.find(std::string("recorded outputs of '") + io + "': yes"), std::string::npos) << said.out;
}

TEST(Doctor, FindingsOfOneCauseAreOneLineWithACount) {
  std::string path = ScratchFolder() + "/m.onnx";
  std::vector<Node> nodes;
  for (int i = 0; i < 6; ++i)
    nodes.push_back(testing::MakeNode("Identity", {i == 0 ? "x" : Cat("v", i)}, {i == 5 ? "y" : Cat("v", i + 1)}));
  WriteModel(testing::MakeModel({testing::MakeInfo("x", DType::kFloat, {2})}, nodes,
                                {testing::MakeInfo("y", DType::kFloat, {2})}),
             path);
  Said said = Ferry({"doctor", path, "--lint", "no-op"});
  EXPECT_NE(said.out.find("'Identity_v1' (Identity)"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("and 5 more: 'Identity_v2', 'Identity_v3', 'Identity_v4' …"), std::string::npos) << said.out;
  EXPECT_EQ(said.out.find("Identity_v5"), std::string::npos) << said.out;
  EXPECT_GE(Ferry({"doctor", path, "--lint", "no-op", "--json"}).json().At("findings").AsArray().size(), 5u);
}

TEST(Doctor, SaysInASentenceWhatItCannotUse) {
  std::string folder = ScratchFolder();
  WriteText(folder + "/bad.npz", "no archive");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"doctor", folder + "/none.onnx"},
        {"doctor", SimpleNet("torch.onnx"), "--data", folder + "/bad.npz"},
        {"doctor", SimpleNet("torch.onnx"), "--data", folder + "/none.npz"},
        {"doctor", SimpleNet("torch.onnx"), "--data", Network("conv_bn_dropout/io_2.npz")}}) {
    Said said = Ferry(words);
    EXPECT_EQ(said.status, 3) << words.back();
    ExpectOneSentence(said);
  }
  EXPECT_EQ(Ferry({"doctor"}).status, 2);
}

TEST(Check, PrintsProblemsForMachines) {
  std::string model = std::string(FERRY_TEST_DATA) + "/broken-models/operator_misspelled.onnx";
  Said said = Ferry({"check", model, "--sarif"});
  EXPECT_EQ(said.status, 1);
  Json sarif = said.json();
  EXPECT_EQ(sarif.At("version").AsString(), "2.1.0");
  const Json run = sarif.At("runs").AsArray().at(0);
  const Json result = run.At("results").AsArray().at(0);
  EXPECT_EQ(result.At("level").AsString(), "error");
  EXPECT_NE(result.At("locations").AsArray().at(0).Find("logicalLocations"), nullptr);
  Json json = Ferry({"check", model, "--json"}).json();
  EXPECT_EQ(json.At("problems").AsArray().at(0).At("rule").AsString(), result.At("ruleId").AsString());
}

}  // namespace
}  // namespace ferry

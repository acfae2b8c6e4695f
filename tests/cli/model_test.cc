// ferry info, test and bench.
#include "base/directory.h"
#include "base/mapped_file.h"
#include "onnx/writer.h"
#include "tests/cli/run_ferry.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

std::string Case(const std::string& name) { return std::string(FERRY_TEST_DATA) + "/onnx-node/" + name; }

void Copy(const std::string& from, const std::string& to) {
  std::string command = "cp -r '" + from + "' '" + to + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
}

TEST(Info, DescribesSimpleNet) {
  Json info = Ferry({"info", SimpleNet("torch.onnx"), "--json"}).json();
  EXPECT_EQ(info.At("parameters").AsInt(), 10 * 16 + 16 + 16 * 3 + 3);
  EXPECT_EQ(info.At("parameter_bytes").AsInt(), 4 * (10 * 16 + 16 + 16 * 3 + 3));
  EXPECT_EQ(info.At("multiply_adds").AsDouble(), 10 * 16 + 16 * 3);
  const Json& input = info.At("inputs").AsArray().at(0);
  EXPECT_EQ(input.At("name").AsString(), "x");
  EXPECT_EQ(input.At("type").AsString(), "tensor(float)");
  EXPECT_EQ(input.At("shape").AsArray().at(1).AsInt(), 10);
  EXPECT_TRUE(info.At("operators").Find("Relu"));
}

TEST(Info, CountsForTheSizesGiven) {
  std::string batch = Ferry({"info", SimpleNet("torch.onnx"), "--json"})
                          .json()
                          .At("inputs")
                          .AsArray()
                          .at(0)
                          .At("shape")
                          .AsArray()
                          .at(0)
                          .AsString();
  Json info = Ferry({"info", SimpleNet("torch.onnx"), "--json", "--dim", batch + "=8"}).json();
  EXPECT_EQ(info.At("multiply_adds").AsDouble(), 8 * (10 * 16 + 16 * 3));
  Said said = Ferry({"info", SimpleNet("torch.onnx"), "--dim", "no_such_dimension=8"});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
}

TEST(Info, PrintsForPeople) {
  Said said = Ferry({"info", SimpleNet("torch.onnx")});
  EXPECT_EQ(said.status, 0);
  for (const char* part : {"pytorch", "opset", "input", "output", "parameters", "227", "multiply-adds"})
    EXPECT_NE(said.out.find(part), std::string::npos) << part << "\n" << said.out;
}

TEST(Info, RefusesWhatIsNoModel) {
  std::string folder = ScratchFolder();
  Said said = Ferry({"info", folder + "/none.onnx"});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
  WriteText(folder + "/empty.onnx", "");
  EXPECT_EQ(Ferry({"info", folder + "/empty.onnx"}).status, 3);
  EXPECT_EQ(Ferry({"info", folder}).status, 3);
}

TEST(Test, CountsCasesThatPass) {
  Said said = Ferry({"test", Case("test_relu"), Case("test_leakyrelu")});
  EXPECT_EQ(said.status, 0) << said.out;
  EXPECT_EQ(said.out, "2 passed, 0 failed\n");
}

TEST(Test, NamesCasesThatFailAndWhy) {
  std::string folder = ScratchFolder();
  Copy(Case("test_relu"), folder + "/good");
  Copy(Case("test_relu"), folder + "/swapped");
  Copy(Case("test_leakyrelu") + "/test_data_set_0/output_0.pb", folder + "/swapped/test_data_set_0/output_0.pb");
  Copy(Case("test_relu"), folder + "/broken");
  WriteText(folder + "/broken/model.onnx", "nothing of use");
  Said said = Ferry({"test", folder, "--list", folder + "/list"});
  EXPECT_EQ(said.status, 1);
  EXPECT_EQ(said.out.substr(said.out.rfind('\n', said.out.size() - 2) + 1), "1 passed, 2 failed\n");
  EXPECT_NE(said.out.find("failed swapped: "), std::string::npos) << said.out;
  std::string list = ReadText(folder + "/list");
  EXPECT_NE(list.find("passed good\n"), std::string::npos) << list;
  EXPECT_NE(list.find("failed broken: "), std::string::npos) << list;
  Json json = Ferry({"test", folder, "--json"}).json();
  EXPECT_EQ(json.At("passed").AsInt(), 1);
  EXPECT_EQ(json.At("failures").AsArray().size(), 2u);
}

TEST(Test, TakesTolerancesFromAFile) {
  std::string folder = ScratchFolder();
  Copy(Case("test_relu"), folder + "/swapped");
  Copy(Case("test_leakyrelu") + "/test_data_set_0/output_0.pb", folder + "/swapped/test_data_set_0/output_0.pb");
  WriteText(folder + "/wide.json", R"({"swapped": {"rtol": 0.001, "atol": 100}})");
  EXPECT_EQ(Ferry({"test", folder}).status, 1);
  EXPECT_EQ(Ferry({"test", folder, "--tolerances", folder + "/wide.json"}).status, 0);
  WriteText(folder + "/tolerances.json", R"({"swapped": {"atol": 100}})");
  EXPECT_EQ(Ferry({"test", folder}).status, 0);
  WriteText(folder + "/bad.json", R"({"swapped": )");
  EXPECT_EQ(Ferry({"test", folder, "--tolerances", folder + "/bad.json"}).status, 3);
}

TEST(Test, RefusesAFolderWithoutCases) {
  std::string folder = ScratchFolder();
  Said said = Ferry({"test", folder});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
}

TEST(Bench, MeasuresEverything) {
  Said said = Ferry({"bench", SimpleNet("torch.onnx"), "--json", "--iters", "5", "--warmup", "1", "--threads", "1"});
  ASSERT_EQ(said.status, 0) << said.err;
  Json result = said.json();
  for (const char* key : {"load_ms", "first_ms", "median_ms", "p90_ms", "p99_ms", "peak_rss_kb"})
    EXPECT_GT(result.At(key).AsDouble(), 0) << key;
  EXPECT_LE(result.At("median_ms").AsDouble(), result.At("p90_ms").AsDouble());
  EXPECT_LE(result.At("p90_ms").AsDouble(), result.At("p99_ms").AsDouble());
  EXPECT_EQ(result.At("threads").AsInt(), 1);
}

TEST(Bench, TellsTheErrorOfAnotherPrecision) {
  Json full = Ferry({"bench", SimpleNet("torch.onnx"), "--json", "--iters", "1"}).json();
  EXPECT_EQ(full.Find("max_rel_error"), nullptr);
  Json bf16 = Ferry({"bench", SimpleNet("torch.onnx"), "--json", "--iters", "1", "--precision", "bf16"}).json();
  EXPECT_GT(bf16.At("max_rel_error").AsDouble(), 0);
  EXPECT_LT(bf16.At("max_rel_error").AsDouble(), 0.02);
  Said said = Ferry({"bench", SimpleNet("torch.onnx"), "--iters", "1", "--precision", "bf16"});
  EXPECT_NE(said.out.find("of the largest output"), std::string::npos) << said.out;
}

TEST(Bench, WritesATimelineOfOneRun) {
  std::string path = ScratchFolder() + "/trace.json";
  Said said = Ferry({"bench", SimpleNet("torch.onnx"), "--iters", "2", "--profile", path});
  ASSERT_EQ(said.status, 0) << said.err;
  Json trace = Json::Parse(MappedFile::Open(path)->text());
  int steps = 0, runs = 0;
  for (const Json& event : trace.AsArray()) {
    if (event.At("ph").AsString() != "X") continue;
    bool is_step = event.At("cat").AsString() == "Node";
    ++(is_step ? steps : runs);
    if (is_step) {
      EXPECT_GT(event.At("args").At("output_size").AsInt(), 0);
    }
  }
  EXPECT_GE(steps, 2);
  EXPECT_EQ(runs, 1);
}

TEST(Bench, RefusesADimensionThatNoInputHas) {
  Said said = Ferry({"bench", SimpleNet("torch.onnx"), "--dim", "depth=3"});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
  EXPECT_NE(said.err.find("'depth'"), std::string::npos) << said.err;
}

// 2^34 random numbers would be made first, if the model were not looked at before.
TEST(Bench, LooksAtTheModelBeforeItMakesInputs) {
  std::string path = ScratchFolder() + "/m.onnx";
  Model model = testing::MakeModel({testing::MakeInfo("x", DType::kFloat, {int64_t{1} << 34})},
                                   {testing::MakeNode("Nonsense", {"x"}, {"y"})}, {testing::MakeInfo("y")});
  WriteModel(model, path);
  Said said = Ferry({"bench", path, "--iters", "1"});
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("no operator 'Nonsense'"), std::string::npos) << said.err;
  EXPECT_LT(said.peak_kilobytes, 1 << 20);
  model.graph.nodes[0].op_type = "Relu";
  model.graph.outputs.clear();
  WriteModel(model, path);
  said = Ferry({"bench", path, "--iters", "1"});
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("has no output"), std::string::npos) << said.err;
}

TEST(Info, ProposesOtherSizesWhereOneDoesNotSuit) {
  std::string path = ScratchFolder() + "/m.onnx";
  WriteModel(
      testing::MakeModel({testing::MakeInfo("x", DType::kFloat, {Dim::Named("batch"), 1, Dim::Named("rows"), 8})},
                         {testing::MakeNode("MaxPool", {"x"}, {"h"}, {{"kernel_shape", std::vector<int64_t>{4, 4}}}),
                          testing::MakeNode("Reshape", {"h", "s"}, {"y"})},
                         {testing::MakeInfo("y")}, {MakeStored("s", Tensor::FromVector<int64_t>({5, -1}))}),
      path);
  Said said = Ferry({"info", path});
  EXPECT_NE(said.out.find("try --dim rows=320"), std::string::npos) << said.out;
  EXPECT_EQ(said.out.find("--dim batch"), std::string::npos) << said.out;
}

}  // namespace
}  // namespace ferry

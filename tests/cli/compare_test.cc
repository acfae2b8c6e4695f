// ferry compare: models against models and against themselves, reports, and every way of giving bad data.
#include <cmath>

#include "graph/model.h"
#include "onnx/reader.h"
#include "onnx/writer.h"
#include "tensor/npz.h"
#include "tests/cli/run_ferry.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

class CompareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ScratchFolder();
    model_ = SimpleNet("torch.onnx");
    data_ = SimpleNet("io_2.npz");
  }

  std::string Save(const std::string& name, const NamedTensors& tensors) {
    WriteNpz(folder_ + "/" + name, tensors);
    return folder_ + "/" + name;
  }

  // The network with one weight of its first layer changed.
  std::string SaveChanged() {
    Model model = ReadModel(model_);
    for (StoredTensor& weight : model.graph.initializers)
      if (weight.name == model.graph.nodes[0].inputs[1]) {
        Tensor changed = weight.Get().Clone();
        changed.MutableData<float>()[0] += 1;
        weight = MakeStored(weight.name, changed);
      }
    first_layer_ = model.graph.nodes[0].name;
    WriteModel(model, folder_ + "/changed.onnx");
    return folder_ + "/changed.onnx";
  }

  void ExpectRefusal(const std::vector<std::string>& arguments, const std::string& part) {
    Said said = Ferry(arguments);
    EXPECT_EQ(said.status, 3) << said.out;
    ExpectOneSentence(said);
    EXPECT_NE(said.err.find(part), std::string::npos) << said.err;
  }

  std::string folder_, model_, data_, first_layer_;
};

TEST_F(CompareTest, AModelAgreesWithItselfInEveryWay) {
  EXPECT_EQ(Ferry({"compare", model_, model_}).status, 0);
  for (const char* way : {"float64", "unoptimised", "cpu"}) {
    Json json = Ferry({"compare", model_, "--against", way, "--data", data_, "--json"}).json();
    EXPECT_TRUE(json.At("within").AsBool()) << way;
    EXPECT_EQ(json.At("samples").AsArray().size(), 8u) << "the recording and seven edge cases";
  }
  Json plain = Ferry({"compare", model_, model_, "--no-edge-cases", "--random", "2", "--json"}).json();
  EXPECT_EQ(plain.At("samples").AsArray().size(), 2u);
}

TEST_F(CompareTest, HoldsBfloat16AgainstFloat32) {
  std::vector<std::string> words{"compare", model_, "--precision", "bf16", "--against", "float32", "--json"};
  Said strict = Ferry(words);
  EXPECT_EQ(strict.status, 1) << "errors of some thousandths";
  words.insert(words.end(), {"--rtol", "0.05", "--atol", "0.05", "--no-edge-cases"});
  Said loose = Ferry(words);
  EXPECT_EQ(loose.status, 0) << loose.out;
  EXPECT_NE(Ferry({"compare", model_, "--against", "float32"}).err.find("--precision bf16"), std::string::npos);
}

TEST_F(CompareTest, NamesTheLayerWhereTwoModelsPart) {
  std::string changed = SaveChanged();
  Said said = Ferry({"compare", changed, model_, "--data", data_});
  EXPECT_EQ(said.status, 1);
  EXPECT_NE(said.out.find("first layer that goes wrong: node '" + first_layer_ + "'"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("the weights differ"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("NOT within tolerance"), std::string::npos) << said.out;
  Json first = Ferry({"compare", changed, model_, "--data", data_, "--json"}).json().At("trace").At("first");
  EXPECT_EQ(first.At("node").AsString(), first_layer_);
}

TEST_F(CompareTest, ReplaysTheWorstSample) {
  std::string changed = SaveChanged(), worst = folder_ + "/worst.npz";
  EXPECT_EQ(Ferry({"compare", changed, model_, "--save-worst", worst}).status, 1);
  EXPECT_EQ(Ferry({"compare", changed, "--data", worst}).status, 1);
  EXPECT_EQ(Ferry({"compare", model_, "--data", worst}).status, 0);
}

TEST_F(CompareTest, WritesAPage) {
  std::string page = folder_ + "/report.html";
  EXPECT_EQ(Ferry({"compare", SaveChanged(), model_, "--data", data_, "--html", page}).status, 1);
  std::string text = ReadText(page);
  for (const char* part :
       {"<!DOCTYPE html>", "The answers differ", "prefers-color-scheme", "viewport", "<svg", "</html>"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST_F(CompareTest, ThePageSaysWhatTheDoctorFinds) {
  std::string baked = SimpleNet("torch_legacy14.onnx"), page = folder_ + "/report.html";
  EXPECT_EQ(Ferry({"compare", baked, baked, "--data", data_, "--html", page}).status, 0);
  std::string text = ReadText(page);
  EXPECT_NE(text.find("What the doctor says"), std::string::npos);
  EXPECT_NE(text.find("baked-batch"), std::string::npos);
}

TEST_F(CompareTest, TakesAFolderOfRecordings) {
  std::string folder = folder_ + "/recordings";
  ASSERT_EQ(std::system(("mkdir '" + folder + "'").c_str()), 0);
  ExpectRefusal({"compare", model_, "--data", folder}, "no .npz file in this folder");
  NamedTensors recorded = ReadNpz(data_);
  WriteNpz(folder + "/a.npz", recorded);
  WriteNpz(folder + "/b.npz", recorded);
  Json json = Ferry({"compare", model_, "--data", folder, "--json"}).json();
  EXPECT_EQ(json.At("samples").AsArray().size(), 2u);
}

TEST_F(CompareTest, RefusesBadData) {
  ExpectRefusal({"compare", model_, "--data", folder_ + "/none.npz"}, "none.npz");
  WriteText(folder_ + "/text.npz", "this is no archive");
  ExpectRefusal({"compare", model_, "--data", folder_ + "/text.npz"}, "text.npz");
  std::string whole = ReadText(data_);
  WriteText(folder_ + "/cut.npz", whole.substr(0, whole.size() / 2));
  ExpectRefusal({"compare", model_, "--data", folder_ + "/cut.npz"}, "cut.npz");
  NamedTensors wide{{"in0", Tensor::Zeros(DType::kFloat, {2, 11})}, {"out0", Tensor::Zeros(DType::kFloat, {2, 3})}};
  ExpectRefusal({"compare", model_, "--data", Save("wide.npz", wide)}, "dimension 1 is fixed to 10");
  NamedTensors whole_numbers{{"in0", Tensor::Zeros(DType::kInt64, {2, 10})},
                             {"out0", Tensor::Zeros(DType::kFloat, {2, 3})}};
  ExpectRefusal({"compare", model_, "--data", Save("ints.npz", whole_numbers)}, "element type");
}

TEST_F(CompareTest, RefusesRecordedNan) {
  NamedTensors recorded = ReadNpz(data_);
  for (auto& [name, tensor] : recorded)
    if (name == "out0") {
      tensor = tensor.Clone();
      tensor.MutableData<float>()[1] = std::nanf("");
    }
  ExpectRefusal({"compare", model_, "--data", Save("nan.npz", recorded)}, "is NaN at element 1");
}

TEST_F(CompareTest, ModelsThatDoNotFitTogether) {
  std::string other = std::string(FERRY_TEST_DATA) + "/torch-models/masked_mean/torch.onnx";
  ExpectRefusal({"compare", model_, other, "--data", data_}, "one has 1 input, the other 2");
  EXPECT_EQ(Ferry({"compare", model_}).status, 2);
  EXPECT_EQ(Ferry({"compare", model_, model_, "--against", "float64"}).status, 2);
  EXPECT_EQ(Ferry({"compare", model_, model_, model_}).status, 2);
}

TEST(Compare, SaysWhenAtolDecides) {
  std::string folder = ScratchFolder();
  auto tiny = [&](const char* file, float factor) {
    std::string path = folder + "/" + file;
    WriteModel(testing::MakeModel({testing::MakeInfo("x", DType::kFloat, {1, 4})},
                                  {testing::MakeNode("Mul", {"x", "w"}, {"y"})}, {testing::MakeInfo("y")},
                                  {MakeStored("w", Tensor::FromVector<float>({1e-7f * factor}))}),
               path);
    return path;
  };
  std::string page = folder + "/page.html";
  Said said = Ferry({"compare", tiny("a.onnx", 1), tiny("b.onnx", 1.5f), "--html", page, "--no-edge-cases"});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
  EXPECT_NE(said.out.find("atol decides"), std::string::npos) << said.out;
  std::string html = ReadText(page);
  EXPECT_NE(html.find("overflow-wrap:anywhere"), std::string::npos);
}

}  // namespace
}  // namespace ferry

// ferry run and compare: right inputs, and every way of giving wrong ones.
#include "base/directory.h"
#include "measure/difference.h"
#include "tensor/npy.h"
#include "tensor/npz.h"
#include "tests/cli/run_ferry.h"

namespace ferry {
namespace {

const Tensor& Find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors)
    if (key == name) return tensor;
  Fail(ErrorCode::kNotFound, name);
}

class SimpleNetTest : public ::testing::Test {
 protected:
  std::string folder_ = ScratchFolder();
  std::string model_ = SimpleNet("torch.onnx");
  NamedTensors recorded_ = ReadNpz(SimpleNet("io_2.npz"));

  std::string Save(const std::string& name, const Tensor& tensor) {
    std::string path = folder_ + "/" + name;
    WriteNpy(path, tensor);
    return path;
  }
  std::string Save(const std::string& name, const NamedTensors& tensors) {
    std::string path = folder_ + "/" + name;
    WriteNpz(path, tensors);
    return path;
  }
  Said RunWith(const Tensor& tensor) { return Ferry({"run", model_, "--input", "x=" + Save("x.npy", tensor)}); }
};

TEST_F(SimpleNetTest, AnswersAsPyTorchDid) {
  std::string out = folder_ + "/out.npz";
  Said said = Ferry({"run", model_, "--inputs", SimpleNet("io_2.npz"), "--outputs", out});
  ASSERT_EQ(said.status, 0) << said.err;
  NamedTensors written = ReadNpz(out);
  ASSERT_EQ(written.size(), 1u);
  EXPECT_TRUE(Compare(written[0].second, Find(recorded_, "out0"), {}).within());
}

TEST_F(SimpleNetTest, PrintsTheAnswerForPeopleAndAsJson) {
  Said people = RunWith(Find(recorded_, "in0"));
  ASSERT_EQ(people.status, 0) << people.err;
  EXPECT_NE(people.out.find("float[2, 3]"), std::string::npos) << people.out;
  Said json = Ferry({"run", model_, "--inputs", SimpleNet("io_2.npz"), "--json"});
  Json output = json.json().At("outputs").AsArray().at(0);
  EXPECT_EQ(output.At("values").AsArray().size(), 6u);
  EXPECT_NEAR(output.At("values").AsArray()[0].AsDouble(), Find(recorded_, "out0").Data<float>()[0], 1e-5);
}

TEST_F(SimpleNetTest, RefusesAWrongInputName) {
  Said said = Ferry({"run", model_, "--input", "y=" + Save("x.npy", Find(recorded_, "in0"))});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
  EXPECT_NE(said.err.find("'x'"), std::string::npos) << said.err;
}

TEST_F(SimpleNetTest, RefusesAMissingInput) {
  Said said = Ferry({"run", model_});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
  EXPECT_NE(said.err.find("'x'"), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("missing"), std::string::npos) << said.err;
}

TEST_F(SimpleNetTest, RefusesAnExtraInput) {
  std::string x = Save("x.npy", Find(recorded_, "in0"));
  Said said = Ferry({"run", model_, "--input", "x=" + x, "--input", "mask=" + x});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
  EXPECT_NE(said.err.find("'mask'"), std::string::npos) << said.err;
}

TEST_F(SimpleNetTest, RefusesAnInputGivenTwice) {
  std::string x = Save("x.npy", Find(recorded_, "in0"));
  Said said = Ferry({"run", model_, "--input", "x=" + x, "--input", "x=" + x});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
  EXPECT_NE(said.err.find("twice"), std::string::npos) << said.err;
}

TEST_F(SimpleNetTest, RefusesAWrongElementType) {
  Said said = RunWith(Tensor::Zeros(DType::kDouble, {2, 10}));
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
  EXPECT_NE(said.err.find("double"), std::string::npos) << said.err;
}

TEST_F(SimpleNetTest, RefusesAWrongRank) {
  Said said = RunWith(Tensor::Zeros(DType::kFloat, {10}));
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
}

TEST_F(SimpleNetTest, RefusesAWrongDimension) {
  Said said = RunWith(Tensor::Zeros(DType::kFloat, {2, 11}));
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
  EXPECT_NE(said.err.find("10"), std::string::npos) << said.err;
}

TEST_F(SimpleNetTest, RefusesAnUnknownOutput) {
  Said said = Ferry({"run", model_, "--inputs", SimpleNet("io_2.npz"), "--output", "nothing_like_it"});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
}

TEST_F(SimpleNetTest, RefusesFilesThatAreNotThereOrNotModels) {
  EXPECT_EQ(Ferry({"run", folder_ + "/none.onnx"}).status, 3);
  WriteText(folder_ + "/text.onnx", "this is not a model, whatever its name says");
  EXPECT_EQ(Ferry({"run", folder_ + "/text.onnx"}).status, 3);
  EXPECT_EQ(Ferry({"run", model_, "--inputs", folder_ + "/none.npz"}).status, 3);
  EXPECT_EQ(Ferry({"run", model_, "--inputs", folder_ + "/text.onnx"}).status, 3);
}

TEST_F(SimpleNetTest, SaysErrorsAsJsonToo) {
  Said said = Ferry({"run", model_, "--json"});
  EXPECT_EQ(said.status, 3);
  EXPECT_EQ(said.json().At("error").At("code").AsString(), "invalid argument");
}

TEST_F(SimpleNetTest, ComparesWithinTolerance) {
  Said said = Ferry({"compare", model_, "--data", SimpleNet("io_1.npz"), SimpleNet("io_2.npz"), SimpleNet("io_5.npz")});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
  EXPECT_NE(said.out.find("within tolerance (rtol 0.001, atol 1e-05)"), std::string::npos) << said.out;
  Json json = Ferry({"compare", model_, "--data", SimpleNet("io_1.npz"), "--json"}).json();
  EXPECT_TRUE(json.At("within").AsBool());
  EXPECT_LT(json.At("samples").AsArray().at(0).At("outputs").AsArray().at(0).At("max_abs").AsDouble(), 1e-5);
}

TEST_F(SimpleNetTest, TellsWhenAnswersDiffer) {
  NamedTensors changed = recorded_;
  for (auto& [name, tensor] : changed)
    if (name == "out0") {
      tensor = tensor.Clone();
      tensor.MutableData<float>()[4] += 1;
    }
  Said said = Ferry({"compare", model_, "--data", Save("changed.npz", changed)});
  EXPECT_EQ(said.status, 1);
  EXPECT_NE(said.out.find("1 of 6 elements differ"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("[1, 1]"), std::string::npos) << said.out;
  EXPECT_EQ(Ferry({"compare", model_, "--data", folder_ + "/changed.npz", "--atol", "2"}).status, 0);
}

TEST_F(SimpleNetTest, ComparesByNamesAsWellAsByPosition) {
  std::string output = Ferry({"info", model_, "--json"}).json().At("outputs").AsArray().at(0).At("name").AsString();
  NamedTensors named{{"x", Find(recorded_, "in0")}, {output, Find(recorded_, "out0")}};
  EXPECT_EQ(Ferry({"compare", model_, "--data", Save("named.npz", named)}).status, 0);
}

TEST_F(SimpleNetTest, RefusesRecordingsThatDoNotFit) {
  NamedTensors strange = recorded_;
  strange.emplace_back("weather", Tensor::Scalar<float>(1));
  Said said = Ferry({"compare", model_, "--data", Save("strange.npz", strange)});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
  EXPECT_NE(said.err.find("'weather'"), std::string::npos) << said.err;
  NamedTensors only_input{{"in0", Find(recorded_, "in0")}};
  EXPECT_EQ(Ferry({"compare", model_, "--data", Save("only_input.npz", only_input)}).status, 3);
}

TEST_F(SimpleNetTest, AWrongInputNameIsNamedWithTheRightOne) {
  std::string x = Save("x.npy", Find(recorded_, "in0"));
  for (std::string wrong : {"y", "X", "input"}) {
    Said said = Ferry({"run", model_, "--input", wrong + "=" + x});
    EXPECT_EQ(said.status, 3);
    EXPECT_NE(said.err.find("no input '" + wrong + "'; did you mean 'x'?"), std::string::npos) << said.err;
  }
}

TEST_F(SimpleNetTest, LimitsAreOptions) {
  auto run = [&](std::vector<std::string> limits) {
    std::vector<std::string> words{"run", model_, "--inputs", SimpleNet("io_2.npz")};
    words.insert(words.end(), limits.begin(), limits.end());
    return Ferry(words);
  };
  EXPECT_EQ(run({"--time-limit", "60", "--memory-limit", "1M", "--max-iterations", "5", "--max-inflated", "1G"}).status,
            0);
  Said large = run({"--memory-limit", "1"});
  EXPECT_EQ(large.status, 3);
  ExpectOneSentence(large);
  EXPECT_NE(large.err.find("--memory-limit"), std::string::npos) << large.err;
  Said late = run({"--time-limit", "1e-9"});
  EXPECT_EQ(late.status, 3);
  EXPECT_NE(late.err.find("--time-limit"), std::string::npos) << late.err;
  for (const char* wrong :
       {"", "0", "-1", "1X", "M", "1MM", "1iB", ".", ".5G", "1e3", "0x10", "nan", "99999999999999G"}) {
    Said said = run({"--memory-limit", wrong});
    EXPECT_EQ(said.status, 2) << wrong;
    EXPECT_NE(said.err.find("--memory-limit must be a number of bytes"), std::string::npos) << said.err;
  }
  for (const char* right : {"1000000", "1000000B", "1.5m", "4MB", "4MiB", "1gib"})
    EXPECT_EQ(run({"--memory-limit", right}).status, 0) << right;
  EXPECT_EQ(run({"--time-limit", "0"}).status, 2);
  EXPECT_EQ(Ferry({"bench", model_, "--iters", "2", "--memory-limit", "1"}).status, 3);
  EXPECT_EQ(Ferry({"compare", model_, "--data", SimpleNet("io_2.npz"), "--time-limit", "1e-9"}).status, 3);
  EXPECT_EQ(Ferry({"test", std::string(FERRY_TEST_DATA) + "/onnx-node/test_relu", "--time-limit", "1e-9"}).status, 1);
  EXPECT_EQ(Ferry({"test", std::string(FERRY_TEST_DATA) + "/onnx-node/test_relu", "--time-limit", "60"}).status, 0);
}

}  // namespace
}  // namespace ferry

#include "tests/cli/run_ferry.h"

namespace ferry {
namespace {

TEST(Check, FindsAGoodModelValid) {
  Said said = Ferry({"check", SimpleNet("torch.onnx")});
  EXPECT_EQ(said.status, 0) << said.out << said.err;
  EXPECT_NE(said.out.find("valid"), std::string::npos);
  Json json = Ferry({"check", SimpleNet("torch.onnx"), "--json"}).json();
  EXPECT_TRUE(json.At("valid").AsBool());
}

TEST(Check, SaysNoToWhatIsNoModel) {
  std::string folder = ScratchFolder();
  std::string model = ReadText(SimpleNet("torch.onnx"));
  WriteText(folder + "/text.onnx", "this is not a model, whatever its name says");
  WriteText(folder + "/cut.onnx", model.substr(0, model.size() / 2));
  WriteText(folder + "/empty.onnx", "");
  for (const char* name : {"/text.onnx", "/cut.onnx", "/empty.onnx"}) {
    Said said = Ferry({"check", folder + name});
    EXPECT_EQ(said.status, 1) << name << said.out << said.err;
    EXPECT_NE(said.out.find("not valid"), std::string::npos) << said.out;
    Json json = Ferry({"check", folder + name, "--json"}).json();
    EXPECT_FALSE(json.At("valid").AsBool());
    EXPECT_FALSE(json.At("problems").AsArray().empty());
  }
}

TEST(Check, NamesTheNodeThatIsWrong) {
  std::string folder = ScratchFolder();
  std::string model = ReadText(SimpleNet("torch.onnx"));
  size_t at = model.find("Relu");
  ASSERT_NE(at, std::string::npos);
  model.replace(at, 4, "Rolu");
  WriteText(folder + "/rolu.onnx", model);
  Said said = Ferry({"check", folder + "/rolu.onnx"});
  EXPECT_EQ(said.status, 1);
  EXPECT_NE(said.out.find("Rolu"), std::string::npos) << said.out;
}

TEST(Check, CannotJudgeAFileThatIsNotThere) {
  Said said = Ferry({"check", ScratchFolder() + "/none.onnx"});
  EXPECT_EQ(said.status, 3);
  ExpectOneSentence(said);
}

TEST(Check, RecognisesFilesThatAreNoModels) {
  std::string folder = ScratchFolder();
  for (auto [head, name] : {std::pair<std::string, std::string>{"\x89PNG\r\n\x1a\n", "a PNG image"},
                            {"\xff\xd8\xff\xe0", "a JPEG image"},
                            {"%PDF-1.7", "a PDF document"},
                            {"RIFF\x24\x08\x01\x01WAVE", "a WAV recording"}}) {
    WriteText(folder + "/f", head + std::string(1, '\0') + "\xff\xff\xff\xff and more");
    Said said = Ferry({"check", folder + "/f"});
    EXPECT_EQ(said.status, 1);
    EXPECT_NE(said.out.find("this is " + name), std::string::npos) << said.out;
    EXPECT_EQ(said.out.find("export or copy"), std::string::npos) << said.out;
  }
}

}  // namespace
}  // namespace ferry

#include "tests/cli/run_ferry.h"

namespace ferry {
namespace {

using ::testing::TestWithParam;

TEST(Usage, WithoutACommandShowsTheHelpAndRefuses) {
  Said said = Ferry({});
  EXPECT_EQ(said.status, 2);
  EXPECT_NE(said.out.find("Usage: ferry COMMAND"), std::string::npos);
}

TEST(Usage, HelpListsEveryCommand) {
  Said said = Ferry({"--help"});
  EXPECT_EQ(said.status, 0);
  for (const char* command : {"info", "check", "run", "compare", "test", "bench", "completion", "version"})
    EXPECT_NE(said.out.find(std::string("  ") + command + " "), std::string::npos) << command;
}

class EveryCommand : public TestWithParam<const char*> {};

TEST_P(EveryCommand, HasHelpWithItsOptions) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{GetParam(), "--help"}, {GetParam(), "-h"}, {"help", GetParam()}}) {
    Said said = Ferry(words);
    EXPECT_EQ(said.status, 0);
    EXPECT_EQ(said.err, "");
    EXPECT_NE(said.out.find(std::string("Usage: ferry ") + GetParam()), std::string::npos);
    EXPECT_NE(said.out.find("--json"), std::string::npos);
  }
}

TEST_P(EveryCommand, RefusesAnUnknownOption) {
  Said said = Ferry({GetParam(), "--jsno"});
  EXPECT_EQ(said.status, 2);
  EXPECT_NE(said.err.find("did you mean --json?"), std::string::npos) << said.err;
}

INSTANTIATE_TEST_SUITE_P(Commands, EveryCommand,
                         ::testing::Values("info", "check", "run", "compare", "test", "bench", "completion",
                                           "version"));

class EveryModelCommand : public TestWithParam<const char*> {};

TEST_P(EveryModelCommand, ShowsExamples) {
  EXPECT_NE(Ferry({GetParam(), "--help"}).out.find("Examples:"), std::string::npos);
}

TEST_P(EveryModelCommand, NeedsItsArgument) {
  Said said = Ferry({GetParam()});
  EXPECT_EQ(said.status, 2);
  EXPECT_NE(said.err.find("is missing"), std::string::npos) << said.err;
}

INSTANTIATE_TEST_SUITE_P(Commands, EveryModelCommand,
                         ::testing::Values("info", "check", "run", "compare", "test", "bench"));

struct Refused {
  std::vector<std::string> words;
  const char* says;
};

class WrongUsage : public TestWithParam<Refused> {};

TEST_P(WrongUsage, SaysWhatIsWrong) {
  Said said = Ferry(GetParam().words);
  EXPECT_EQ(said.status, 2);
  EXPECT_EQ(said.out, "");
  EXPECT_NE(said.err.find(GetParam().says), std::string::npos) << said.err;
}

INSTANTIATE_TEST_SUITE_P(
    Lines, WrongUsage,
    ::testing::Values(Refused{{"tset"}, "did you mean 'test'?"}, Refused{{"frobnicate"}, "there is no command"},
                      Refused{{"info", "a.onnx", "b.onnx"}, "one argument too many"},
                      Refused{{"bench", "a.onnx", "--iters"}, "--iters needs a value"},
                      Refused{{"bench", "a.onnx", "--iters", "many"}, "must be a whole number"},
                      Refused{{"bench", "a.onnx", "--iters", "0"}, "must be a whole number"},
                      Refused{{"bench", "a.onnx", "--iters", "99999999999999999999"}, "must be a whole number"},
                      Refused{{"bench", "a.onnx", "--iters", "1", "--iters", "2"}, "given twice"},
                      Refused{{"bench", "a.onnx", "--dim", "batch"}, "needs NAME=VALUE"},
                      Refused{{"bench", "a.onnx", "--dim", "batch=two"}, "must be a whole number"},
                      Refused{{"run", "a.onnx", "--provider", "abacus"}, "must be one of"},
                      Refused{{"run", "a.onnx", "--precision", "fp8"}, "must be one of"},
                      Refused{{"run", "a.onnx", "--json=yes"}, "takes no value"},
                      Refused{{"run", "a.onnx", "-x"}, "there is no option -x"},
                      Refused{{"compare", "a.onnx"}, "needs something to compare with: --data FILE.npz"},
                      Refused{{"compare", "a.onnx", "--data", "d.npz", "--rtol", "-1"}, "not negative"},
                      Refused{{"quantize", "a.onnx", "-o", "b.onnx", "--form", "int3"}, "must be one of"},
                      Refused{{"completion", "fish"}, "must be one of bash, zsh"}));

TEST(Usage, TakesValuesAfterAnEqualsSign) {
  Said said = Ferry({"bench", SimpleNet("torch.onnx"), "--iters=2", "--warmup=0", "--json"});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(said.json().At("iters").AsInt(), 2);
}

// One form may be asked for by several names: the files are the same.
TEST(Usage, TakesShortNamesOfForms) {
  const std::string folder = ScratchFolder();
  auto quantized = [&](const char* file, std::vector<std::string> form) {
    std::vector<std::string> words = {"quantize", SimpleNet("torch.onnx"), "-o", folder + file};
    words.insert(words.end(), form.begin(), form.end());
    Said said = Ferry(words);
    EXPECT_EQ(said.status, 0) << said.err;
    return ReadText(folder + file);
  };
  const std::string eight = quantized("/8.onnx", {"--form", "weights", "--bits", "8"});
  const std::string four = quantized("/4.onnx", {"--form", "weights"});
  EXPECT_EQ(quantized("/w8.onnx", {"--form", "weights8"}), eight);
  EXPECT_EQ(quantized("/w4.onnx", {"--form", "weights4"}), four);
  EXPECT_NE(eight, four);
  Said refused =
      Ferry({"quantize", SimpleNet("torch.onnx"), "-o", folder + "/no.onnx", "--form", "weights4", "--bits", "8"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_NE(refused.err.find("contradict"), std::string::npos) << refused.err;
  EXPECT_EQ(quantized("/fp16.onnx", {"--form", "fp16"}), quantized("/half.onnx", {"--form", "float16"}));
  EXPECT_EQ(quantized("/bf16.onnx", {"--form", "bf16"}), quantized("/bf.onnx", {"--form", "bfloat16"}));
}

TEST(Usage, TakesWordsAfterTwoDashesAsTheyAre) {
  Said said = Ferry({"info", "--", "--json"});
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("--json"), std::string::npos);
}

TEST(Version, IsPrinted) {
  Said said = Ferry({"--version"});
  EXPECT_EQ(said.status, 0);
  EXPECT_EQ(said.out.compare(0, 6, "ferry "), 0);
  EXPECT_EQ(Ferry({"version", "--json"}).json().At("version").AsString(),
            said.out.substr(6, said.out.find(' ', 6) - 6));
}

TEST(Completion, OffersCommandsAndOptionsInBash) {
  std::string folder = ScratchFolder();
  WriteText(folder + "/try.sh", Ferry({"completion", "bash"}).out +
                                    "\nCOMP_WORDS=(ferry be) COMP_CWORD=1; _ferry; echo \"${COMPREPLY[*]}\"\n"
                                    "COMP_WORDS=(ferry bench --it) COMP_CWORD=2; _ferry; echo \"${COMPREPLY[*]}\"\n");
  std::string command = "bash '" + folder + "/try.sh' > '" + folder + "/offered' 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(ReadText(folder + "/offered"), "bench\n--iters\n");
}

TEST(Completion, DescribesEveryCommandForZsh) {
  Said said = Ferry({"completion", "zsh"});
  EXPECT_EQ(said.out.compare(0, 14, "#compdef ferry"), 0);
  for (const char* command : {"info", "check", "run", "compare", "test", "bench"})
    EXPECT_NE(said.out.find(std::string("    ") + command + ")\n"), std::string::npos) << command;
}

TEST(Usage, DocumentsHaveEveryOptionOfEveryCommand) {
  std::string tables = Ferry({"--help", "--markdown"}).out, page = ReadText("docs/cli.md");
  size_t begin = 0, commands = 0;
  for (size_t end; (end = tables.find("<!-- end -->", begin)) != std::string::npos; begin = end + 13, ++commands) {
    std::string block = tables.substr(begin, end - begin);
    EXPECT_NE(page.find(block), std::string::npos) << "docs/cli.md is old: run scripts/cli_tables\n" << block;
  }
  EXPECT_GE(commands, 12u);
  EXPECT_NE(tables.find("`--threads N`"), std::string::npos);
}

TEST(Usage, PrintsAManualPage) {
  Said said = Ferry({"--help", "--man"});
  EXPECT_EQ(said.status, 0);
  EXPECT_EQ(said.out.rfind(".TH FERRY 1", 0), 0u);
  for (const char* part : {".SS ferry run MODEL [options]", "\\-\\-outputs FILE.npz", ".SH EXIT STATUS"})
    EXPECT_NE(said.out.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace ferry

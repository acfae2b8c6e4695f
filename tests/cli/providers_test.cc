#include "tests/cli/run_ferry.h"

namespace ferry {
namespace {

TEST(Providers, TheCpuIsAlwaysThere) {
  Said said = Ferry({"providers"});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(said.out.find("cpu: can be used"), 0u) << said.out;
  EXPECT_NE(said.out.find("\ncuda: can"), std::string::npos) << said.out;
}

TEST(Providers, WhatCudaLacksIsNamedWithHowToGetIt) {
  Json providers = Ferry({"providers", "--json"}).json().At("providers");
  ASSERT_EQ(providers.AsArray().size(), 2u);
  EXPECT_EQ(providers.AsArray()[0].At("name").AsString(), "cpu");
  const Json& cuda = providers.AsArray()[1];
  EXPECT_EQ(cuda.At("name").AsString(), "cuda");
  bool usable = !cuda.At("devices").AsArray().empty();
  ASSERT_EQ(cuda.At("libraries").AsArray().size(), 4u);
  for (const Json& library : cuda.At("libraries").AsArray()) {
    usable &= library.At("usable").AsBool();
    if (library.At("usable").AsBool()) {
      EXPECT_FALSE(library.At("version").AsString().empty());
    } else {
      EXPECT_FALSE(library.At("problem").AsString().empty());
      EXPECT_FALSE(library.At("remedy").AsString().empty());
    }
  }
  EXPECT_EQ(cuda.At("usable").AsBool(), usable);
}

TEST(Providers, TheCpuTakesThePlaceOfWhatIsMissingWhereItIsListed) {
  if (!Ferry({"providers", "--json"}).json().At("providers").AsArray()[1].At("usable").AsBool()) {
    const std::vector<std::string> command = {"run", SimpleNet("torch.onnx"), "--inputs", SimpleNet("io_2.npz")};
    auto with = [&](const char* provider) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--provider", provider});
      return Ferry(words);
    };
    const Said alone = with("cuda"), listed = with("cuda,cpu");
    EXPECT_EQ(alone.status, 3);
    EXPECT_NE(alone.err.find("provider cuda cannot be used here: "), std::string::npos) << alone.err;
    EXPECT_EQ(listed.status, 0) << listed.err;
    EXPECT_EQ(listed.out, Ferry(command).out);
    EXPECT_EQ(listed.err.find("note: provider cuda cannot be used here, the CPU runs all of it: "), 0u) << listed.err;
  }
}

}  // namespace
}  // namespace ferry

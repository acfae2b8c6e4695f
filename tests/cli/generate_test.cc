#include "run_ferry.h"

namespace ferry {
namespace {

const char kModel[] = "tests/data/generate/model.onnx";
const char kTokenizer[] = "tests/data/generate/tokenizer.json";

TEST(Generate, StreamsTextAndSaysHowFastItWas) {
  const Said said = Ferry({"generate", kModel, "--prompt", "Return the", "--max-tokens", "12", "--threads", "1"});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(said.out, " current policy.\n\nReturn the current p\n");
  EXPECT_NE(said.err.find("prompt 2 tokens"), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("generated 12 tokens"), std::string::npos);
  EXPECT_NE(said.err.find("stopped by max-tokens"), std::string::npos);
}

TEST(Generate, PrintsJson) {
  const Said said = Ferry({"generate", kModel, "--tokenizer", kTokenizer, "--prompt", "Return the", "--stop", "policy",
                           "--max-tokens", "50", "--json"});
  ASSERT_EQ(said.status, 0) << said.err;
  const Json json = said.json();
  EXPECT_EQ(json.At("text").AsString(), " current ");
  EXPECT_EQ(json.At("stopped_by").AsString(), "stop-word");
  EXPECT_EQ(json.At("prompt_tokens").AsArray().size(), 2u);
  EXPECT_GT(json.At("tokens_per_second").AsDouble(), 0);
  EXPECT_GT(json.At("prompt_tokens_per_second").AsDouble(), 0);
}

TEST(Generate, TheWindowEndsWithAWord) {
  const Said said = Ferry({"generate", kModel, "--prompt", "Return the", "--context", "5"});
  EXPECT_EQ(said.status, 0);
  EXPECT_NE(said.err.find("the model's window has no room for more"), std::string::npos) << said.err;
}

TEST(Generate, RefusesWhatItCannotUse) {
  Said said = Ferry({"generate", kModel});
  EXPECT_EQ(said.status, 2);
  EXPECT_NE(said.err.find("--prompt TEXT"), std::string::npos) << said.err;
  said = Ferry({"generate", SimpleNet("torch.onnx"), "--prompt", "a"});
  EXPECT_EQ(said.status, 2);
  EXPECT_NE(said.err.find("tokenizer.json"), std::string::npos);
  said = Ferry({"generate", SimpleNet("torch.onnx"), "--prompt", "a", "--tokenizer", kTokenizer});
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("input_ids"), std::string::npos);
  said = Ferry({"generate", kModel, "--prompt", "a", "--top-p", "2"});
  EXPECT_NE(said.status, 0);
  EXPECT_NE(said.err.find("top-p"), std::string::npos);
}

TEST(Tokenize, ShowsTokensAndTheWayBack) {
  Said said = Ferry({"tokenize", kTokenizer, "Hello world"});
  EXPECT_EQ(said.status, 0);
  EXPECT_NE(said.out.find("369  ll"), std::string::npos) << said.out;
  said = Ferry({"tokenize", kTokenizer, "Hello", "--json"});
  EXPECT_EQ(said.json().At("ids").AsArray().size(), said.json().At("tokens").AsArray().size());
  said = Ferry({"tokenize", kTokenizer, "--decode", "40", "69", "369", "79"});
  EXPECT_EQ(said.out, "Hello\n");
  EXPECT_EQ(Ferry({"tokenize", kTokenizer, "--decode", "x"}).status, 2);
  EXPECT_EQ(Ferry({"tokenize", kModel, "x"}).status, 3);
}

}  // namespace
}  // namespace ferry

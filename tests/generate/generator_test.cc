// Whole texts: the model of tests/data/generate against PyTorch's greedy tokens; drawing, stopping, streaming.
#include "generate/generator.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

const char kModel[] = "tests/data/generate/model.onnx";
const char kTokenizer[] = "tests/data/generate/tokenizer.json";

const Generator& Small() {
  static const std::shared_ptr<const Generator> generator = [] {
    SessionOptions options;
    options.threads = 1;
    return Generator::Open(kModel, kTokenizer, options);
  }();
  return *generator;
}

GenerateOptions Tokens(int64_t count) {
  GenerateOptions options;
  options.max_tokens = count;
  return options;
}

TEST(GeneratorTest, SameTokensAsPyTorchForTwoHundredSteps) {
  const Json expected = Json::Parse(MappedFile::Open("tests/data/generate/expected.json")->text());
  for (const Json& one : expected.AsArray()) {
    const Generated made = Small().Generate(one.At("prompt").AsString(), Tokens(200));
    std::vector<TokenId> prompt, ids;
    for (const Json& id : one.At("prompt_ids").AsArray()) prompt.push_back(static_cast<TokenId>(id.AsInt()));
    for (const Json& id : one.At("ids").AsArray()) ids.push_back(static_cast<TokenId>(id.AsInt()));
    EXPECT_EQ(made.prompt, prompt);
    EXPECT_EQ(made.ids, ids) << one.At("prompt").AsString();
    EXPECT_EQ(made.text, Small().tokenizer().Decode(ids));
    EXPECT_EQ(made.reason, StopReason::kMaxTokens);
  }
}

TEST(GeneratorTest, SeedsReproduce) {
  GenerateOptions options = Tokens(40);
  options.sampling = {
      .temperature = 1.0, .top_k = 50, .top_p = 0.95, .min_p = 0.01, .repetition_penalty = 1.1, .seed = 7};
  const Generated first = Small().Generate("The", options), again = Small().Generate("The", options);
  EXPECT_EQ(first.ids, again.ids);
  options.sampling.seed = 8;
  EXPECT_NE(Small().Generate("The", options).ids, first.ids);
}

TEST(GeneratorTest, TextComesInPartsAndEndsWhereItIsTold) {
  GenerateOptions options = Tokens(60);
  std::string streamed;
  options.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  const Generated whole = Small().Generate("This program is free software", options);
  EXPECT_EQ(streamed, whole.text);

  const std::string word = whole.text.substr(30, 9);
  options.stop = {"never said", word};
  streamed.clear();
  const Generated cut = Small().Generate("This program is free software", options);
  EXPECT_EQ(cut.reason, StopReason::kStopWord);
  EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(word)));
  EXPECT_EQ(streamed, cut.text);

  options.stop = {};
  options.stop_tokens = {whole.ids[5]};
  const Generated at_token = Small().Generate("This program is free software", options);
  EXPECT_EQ(at_token.reason, StopReason::kStopToken);
  EXPECT_LE(at_token.ids.size(), 6u);
  EXPECT_EQ(at_token.ids.back(), whole.ids[5]);

  options.stop_tokens = {};
  options.on_text = [](std::string_view) { return false; };
  EXPECT_EQ(Small().Generate("This program is free software", options).reason, StopReason::kCaller);
}

TEST(GeneratorTest, TheWindowEndsIt) {
  GenerateOptions options = Tokens(100);
  options.context = 20;
  const Generated made = Small().Generate("Return the", options);
  EXPECT_EQ(made.reason, StopReason::kWindow);
  EXPECT_EQ(made.prompt.size() + made.ids.size(), 21u);  // the last one is told, though it can't be read
  options.context = 1;
  EXPECT_THROW(Small().Generate("Return the", options), Error);
}

// What Transformers and onnxruntime-genai write beside a model.
TEST(GeneratorTest, FilesBesideTheModelSayWhereItEnds) {
  const std::string folder = testing::TemporaryPath("generator_files");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/onnx");
  std::filesystem::copy_file(kModel, folder + "/onnx/model.onnx");
  const Generated free = Small().Generate("Return the", Tokens(40));
  auto write = [&](const char* name, const std::string& text) { std::ofstream(folder + name) << text; };
  write("/generation_config.json", Cat("{\"eos_token_id\": [1023, ", free.ids[3], "]}"));
  write("/config.json", "{\"max_position_embeddings\": 30, \"eos_token_id\": \"none\"}");
  write("/onnx/genai_config.json",
        "{\"model\": {\"context_length\": 25, \"eos_token_id\": -1, \"decoder\": {\"inputs\": {\"input_ids\": "
        "\"input_ids\", \"position_ids\": 3, \"past_key_names\": \"past_key_values.%d.key\"}, \"outputs\": "
        "{\"logits\": \"none\", \"present_key_names\": \"present.%d.key\"}}}}");
  write("/onnx/config.json", "not JSON");
  const auto generator = Generator::Open(folder + "/onnx/model.onnx", kTokenizer);
  EXPECT_EQ(generator->window(), 25);
  EXPECT_EQ(generator->stop_tokens(), (std::vector<TokenId>{1023, free.ids[3]}));
  const Generated made = generator->Generate("Return the", Tokens(40));
  EXPECT_EQ(made.reason, StopReason::kStopToken);
  EXPECT_EQ(made.ids.back(), free.ids[3]);
  std::filesystem::remove_all(folder);
  // Without them, special tokens that usually end a text do.
  EXPECT_EQ(Small().stop_tokens(), std::vector<TokenId>{0});
}

TEST(GeneratorTest, WhatCannotBeIsRefused) {
  GenerateOptions options;
  EXPECT_THROW(Small().Generate("", options), Error);
  options.sampling.top_p = 0;
  EXPECT_THROW(Small().Generate("a", options), Error);
  options = {};
  options.stop = {""};
  EXPECT_THROW(Small().Generate("a", options), Error);
  options = {};
  std::atomic<bool> cancelled{true};
  options.cancelled = &cancelled;
  try {
    Small().Generate("a", options);
    FAIL() << "it was cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

TEST(SamplerTest, PicksAsItsOptionsSay) {
  const std::vector<float> scores = {1, 4, 3, 2, -1};
  auto drawn = [&](SamplingOptions options, std::span<const TokenId> before = {}) {
    std::vector<int> counts(scores.size());
    for (uint64_t seed = 0; seed < 400; ++seed) {
      options.seed = seed;
      std::vector<float> copy = scores;
      ++counts[static_cast<size_t>(Sampler(options).Pick(copy, before))];
    }
    return counts;
  };
  EXPECT_EQ(drawn({})[1], 400);
  const std::vector<TokenId> best = {1};
  EXPECT_EQ(drawn({.repetition_penalty = 2}, best)[2], 400);
  const std::vector<int> all = drawn({.temperature = 1}), two = drawn({.temperature = 1, .top_k = 2}),
                         half = drawn({.temperature = 1, .top_p = 0.6}), most = drawn({.temperature = 1, .min_p = 0.2}),
                         flat = drawn({.temperature = 100});
  EXPECT_NEAR(all[1], 400 * 0.641, 40);
  EXPECT_NEAR(all[2], 400 * 0.236, 35);
  EXPECT_EQ(two[1] + two[2], 400);
  EXPECT_GT(two[2], 60);
  EXPECT_EQ(half[1], 400);
  EXPECT_EQ(most[1] + most[2], 400);
  for (int count : flat) EXPECT_NEAR(count, 80, 35);
  std::vector<float> nothing(3, std::nanf(""));
  EXPECT_THROW(Sampler(SamplingOptions{}).Pick(nothing, {}), Error);
  EXPECT_THROW(Sampler(SamplingOptions{.temperature = -1}), Error);
}

}  // namespace
}  // namespace ferry

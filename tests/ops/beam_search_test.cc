// Searches over an encoder and a decoder, and the rules of speech models.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/nodes.h"

namespace ferry {
namespace {

using testing::Elements;
using testing::ErrorOf;
using testing::MakeInfo;
using testing::MakeNode;
using testing::OneNode;
using testing::RunNode;

using Words = std::vector<int32_t>;

Tensor Number(int32_t value) { return Tensor::FromVector(Words{value}); }

// Scores of the next word by the last one alone; keys and values pass through.
struct Speech {
  std::vector<float> table;
  int64_t words;
  std::vector<std::pair<std::string, int64_t>> ids;
  std::string extra_input;
  bool has_encoder = true;

  std::vector<ValueInfo> Caches(const char* kind) const {
    std::vector<ValueInfo> caches;
    for (const char* part : {"_key_self_0", "_value_self_0", "_key_cross_0", "_value_cross_0"})
      caches.push_back(MakeInfo(std::string(kind) + part, DType::kFloat, {Dim(), 1, Dim(), 1}));
    return caches;
  }

  std::shared_ptr<Graph> Encoder() const {
    auto body = std::make_shared<Graph>();
    body->inputs = {MakeInfo("encoder_input_ids", DType::kFloat, {Dim(), 2, Dim()}),
                    MakeInfo("decoder_input_ids", DType::kInt32, {Dim(), Dim()})};
    body->outputs = {MakeInfo("logits"), MakeInfo("encoder_hidden_states")};
    body->initializers = {MakeStored("table", Tensor::FromVector(table, {words, words})),
                          MakeStored("nothing", Tensor::FromVector(std::vector<float>{0}, {1, 1, 1, 1}))};
    body->nodes = {MakeNode("Gather", {"table", "decoder_input_ids"}, {"logits"}),
                   MakeNode("Identity", {"encoder_input_ids"}, {"encoder_hidden_states"})};
    for (const ValueInfo& cache : Caches("present")) {
      body->outputs.push_back(cache);
      body->nodes.push_back(MakeNode("Identity", {"nothing"}, {cache.name}));
    }
    return body;
  }

  std::shared_ptr<Graph> Decoder() const {
    auto body = std::make_shared<Graph>();
    body->inputs = {MakeInfo("input_ids", DType::kInt32, {Dim(), 1})};
    for (const ValueInfo& cache : Caches("past")) body->inputs.push_back(cache);
    if (!extra_input.empty()) body->inputs.push_back(MakeInfo(extra_input, DType::kInt32, {1}));
    body->outputs = {MakeInfo("logits"), MakeInfo("present_key_self_0"), MakeInfo("present_value_self_0")};
    body->initializers = {MakeStored("table", Tensor::FromVector(table, {words, words}))};
    body->nodes = {MakeNode("Gather", {"table", "input_ids"}, {"logits"}),
                   MakeNode("Identity", {"past_key_self_0"}, {"present_key_self_0"}),
                   MakeNode("Identity", {"past_value_self_0"}, {"present_value_self_0"})};
    return body;
  }

  std::vector<Value> Run(int32_t most, bool writes_times, const std::string& op = "WhisperBeamSearch") const {
    const bool whisper = op == "WhisperBeamSearch";
    std::vector<Attribute> settings = {{"decoder", Decoder()},
                                       {"early_stopping", int64_t{1}},
                                       {"pad_token_id", int64_t{0}},
                                       {"decoder_start_token_id", int64_t{2}},
                                       {"model_type", int64_t{2}}};
    if (has_encoder) settings.emplace_back("encoder", Encoder());
    for (const auto& [name, id] : ids) settings.emplace_back(name, id);
    Node node = OneNode(op, whisper ? 12 : 5, settings, "com.microsoft", whisper ? 5 : 2);
    if (whisper) node.outputs[3].clear();
    std::vector<Value> inputs = {Tensor::Zeros(DType::kFloat, {1, 2, 3}), Number(most), Number(0), Number(1),
                                 Number(1)};
    inputs.resize(whisper ? 12 : 5);
    if (whisper) inputs[11] = Number(writes_times ? 1 : 0);
    return RunNode(node, inputs);
  }
};

// 2 is followed by 3, 3 by 4, 4 by the end, 5.
Speech Chain() {
  Speech speech{std::vector<float>(36, 0), 6, {{"eos_token_id", 5}, {"no_speech_token_id", 4}}, {}};
  for (size_t word = 2; word < 5; ++word) speech.table[word * 6 + word + 1] = 9;
  return speech;
}

TEST(WhisperBeamSearch, GoesOnFromTheEncodersFirstToken) {
  std::vector<Value> results = Chain().Run(6, false);
  EXPECT_EQ(Elements<int32_t>(results[0]), (Words{2, 3, 4, 0, 0, 0}));
  EXPECT_NEAR(Elements<float>(results[4])[0], 1 / (5 + std::exp(9.0f)), 1e-6);
  EXPECT_EQ(Elements<int32_t>(Chain().Run(6, false, "BeamSearch")[0]), (Words{2, 3, 4, 0, 0, 0}));
  EXPECT_EQ(Elements<int32_t>(Chain().Run(3, false)[0]), (Words{2, 3, 4}));
}

// Times are 5, 6 and 7: all words are as likely as each other, and times together likelier than one word.
TEST(WhisperBeamSearch, TimesComeInPairsAndNeverGoBack) {
  Speech speech{std::vector<float>(64, 0),
                8,
                {{"eos_token_id", 1}, {"no_speech_token_id", 4}, {"beginning_timestamp_token_id", 5}},
                {}};
  EXPECT_EQ(Elements<int32_t>(speech.Run(6, true)[0]), (Words{2, 5, 0, 6, 6, 0}));
  EXPECT_EQ(Elements<int32_t>(speech.Run(4, false)[0]), (Words{2, 0, 0, 0}));
}

TEST(WhisperBeamSearch, RefusesModelsThatDoNotFit) {
  auto error = [](const Speech& speech, bool times = false) { return ErrorOf([&] { speech.Run(5, times); }); };
  Speech speech = Chain();
  EXPECT_EQ(error(speech), "no error");
  EXPECT_NE(error(speech, true).find("beginning_timestamp_token_id"), std::string::npos);
  speech.ids[1].second = 6;
  EXPECT_NE(error(speech).find("no_speech_token_id"), std::string::npos);
  speech = Chain();
  speech.extra_input = "past_sequence_length";
  EXPECT_NE(error(speech).find("share"), std::string::npos);
  speech.extra_input = "odd";
  EXPECT_NE(error(speech).find("keys and values"), std::string::npos);
  speech = Chain();
  speech.has_encoder = false;
  EXPECT_NE(error(speech).find("encoder"), std::string::npos);
}

}  // namespace
}  // namespace ferry

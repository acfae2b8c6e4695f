// BeamSearch for Whisper: what the model may say when it writes down times, and how sure it is that nobody speaks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/operator.h"
#include "ops/support/beam_search.h"

namespace ferry {
namespace {

constexpr float kNever = std::numeric_limits<float>::lowest();
constexpr int64_t kLatestFirstTime = 50;  // a text begins within its first second

class WhisperRules : public ScoreRules {
 public:
  explicit WhisperRules(OpContext& context)
      : context_(context),
        temperature_(FloatInput(context, 14, "temperature", 1)),
        writes_times_(IntInput(context, 11, "logits_processor", 0) == 1),
        end_(context.node().Int("eos_token_id", -1)),
        start_(context.node().Int("decoder_start_token_id", -1)),
        translate_(context.node().Int("translate_token_id", -1)),
        transcribe_(context.node().Int("transcribe_token_id", -1)),
        start_of_model_(context.node().Int("start_of_lm_token_id", -1)),
        silence_(context.node().Int("no_speech_token_id", -1)),
        no_times_(context.node().Int("no_timestamps_token_id", -1)),
        times_(context.node().Int("beginning_timestamp_token_id", -1)) {
    Require(context.node().Int("model_type", TokenSearch::kWhisper) == TokenSearch::kWhisper,
            "WhisperBeamSearch takes model_type 2 only, not ", context.node().Int("model_type", 2));
    Require(context.node().Int("decoder_output_cross_qk", 0) == 0 && !context.Wants(3),
            "cross_qk is computed on GPUs only, in ONNX Runtime as well");
  }

  void See(const TokenSearch& search, const std::vector<float>& log_probabilities, int64_t step) override {
    Require(!writes_times_ || (times_ > 0 && times_ < search.words), "beginning_timestamp_token_id must be 1 to ",
            search.words - 1, ", is ", times_);
    if (step > 0 || !context_.Wants(4)) return;
    Require(silence_ >= 0 && silence_ < search.words, "no_speech_token_id must be 0 to ", search.words - 1, ", is ",
            silence_);
    float* chances = context_.Output(4, DType::kFloat, Shape{search.batch}).MutableData<float>();
    const int64_t beams = static_cast<int64_t>(search.sequences.size()) / search.batch;
    for (int64_t b = 0; b < search.batch; ++b)
      chances[b] = std::exp(log_probabilities[static_cast<size_t>(b * beams * search.words + silence_)]);
  }

  void Change(const TokenSearch& search, std::vector<float>& scores) const override {
    if (temperature_ > 0)
      for (float& score : scores) score /= temperature_;
    for (size_t b = 0; b < search.sequences.size() && writes_times_; ++b)
      KeepTimesInOrder(search.sequences[b], scores.data() + static_cast<int64_t>(b) * search.words, search.words);
  }

 private:
  // Times come in pairs (the end of a piece and the beginning of the next), but for the first, and never go back.
  void KeepTimesInOrder(const std::vector<int32_t>& sequence, float* row, int64_t words) const {
    auto forbid = [&](int64_t begin, int64_t end) {
      for (int64_t i = std::max<int64_t>(begin, 0); i < std::min(end, words); ++i) row[i] = kNever;
    };
    auto is_time = [&](int32_t token) { return token >= times_; };
    const auto first = std::find_if(sequence.begin(), sequence.end(), is_time);
    const bool only_begins = first == sequence.end() || first + 1 == sequence.end();
    for (int64_t token : {no_times_, start_of_model_}) forbid(token, token < 0 ? token : token + 1);
    if (!only_begins)
      for (int64_t token : {start_, translate_, transcribe_}) forbid(token, token < 0 ? token : token + 1);
    const bool after_time = is_time(sequence.back()), after_two = only_begins || is_time(sequence[sequence.size() - 2]);
    if (after_time && after_two) forbid(times_, words);
    if (after_time && !after_two) forbid(0, end_);
    const auto last = std::find_if(sequence.rbegin(), sequence.rend(), is_time);
    if (last != sequence.rend()) forbid(times_, after_time && !after_two ? *last : int64_t{*last} + 1);
    if (only_begins) forbid(times_ + kLatestFirstTime + 1, words);
    PreferTimes(row, words);
  }

  // A time where all times together are likelier than the likeliest word.
  void PreferTimes(float* row, int64_t words) const {
    const float likeliest = *std::max_element(row + times_, row + words);
    float sum = 0;
    for (int64_t i = times_; i < words; ++i)
      if (row[i] > kNever) sum += std::exp(row[i] - likeliest);
    const float together = sum > 0 ? std::log(sum) + likeliest : kNever;
    if (together > *std::max_element(row, row + times_)) std::fill(row, row + times_, kNever);
  }

  OpContext& context_;
  const float temperature_;
  const bool writes_times_;
  const int64_t end_, start_, translate_, transcribe_, start_of_model_, silence_, no_times_, times_;
};

void ComputeWhisperBeamSearch(OpContext& context) {
  WhisperRules rules(context);
  RunBeamSearch(context, rules, TokenSearch::kWhisper);
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, WhisperBeamSearch,
                  {.compute = ComputeWhisperBeamSearch, .infer = InferTokenSearch, .has_subgraphs = true});

}  // namespace ferry

// What GreedySearch, Sampling and BeamSearch share: a decoder that is run token by token with what it remembers, and
// the rules that change the scores of the next token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/context.h"
#include "ops/infer_context.h"
#include "ops/support/encoder_decoder.h"

namespace ferry {

struct TokenSearch {
  // Inputs by number, -1 where the operator has none.
  struct Places {
    int min_length, repetition_penalty, vocab_mask, prefix_vocab_mask, attention_mask;
    int decoder_input_ids = -1;  // operators that have it take models with an encoder as well
    int64_t model = kGpt;        // where the node does not say model_type
  };
  static constexpr int64_t kGpt = 0, kT5 = 1, kWhisper = 2;

  int64_t model = kGpt;
  int64_t batch = 0, length = 0;  // of what the sequences begin with
  int64_t max_length = 0, min_length = 0, eos = -1, pad = 0, no_repeat = 0;
  float repetition_penalty = 1;
  int64_t words = 0;                            // known after the first run of the decoder
  std::vector<std::vector<int32_t>> sequences;  // one for each beam

  TokenSearch(OpContext& context, const Places& places, int64_t beams);

  // The scores of the next token, [batch · beams, words], by the tokens in `sequences`. From the second call on the
  // last token of each sequence is what the decoder gets; `from` says which beam of the last call each one goes on
  // from.
  std::vector<float> NextLogits(std::span<const int64_t> from);
  // Penalties and masks. `step` counts from 0.
  void Adjust(std::vector<float>& scores, int64_t step) const;
  // Output 0 of a search without beams: each sequence, filled up with `pad` to the longest there may be.
  void WriteSequences() const;
  bool IsFull() const { return static_cast<int64_t>(sequences[0].size()) >= max_length; }
  // Whether the first scores are the encoder's own.
  bool encoder_scores() const { return pair_ && pair_->encoder_scores(); }

 private:
  void Begin(const Places& places);
  std::vector<int32_t> BeginWithStartTokens(const Places& places);
  void FirstInputs(const Places& places);
  void NextInputs(std::span<const int64_t> from);
  Value RunDecoder(std::span<const int64_t> from);
  std::vector<float> LastScores(const Value& scores);
  std::vector<int32_t> MaskInput(int place, int64_t count) const;

  OpContext& context_;
  const int64_t beams_;
  std::vector<Value> inputs_;  // of the decoder: input_ids, position_ids, attention_mask, past …
  std::vector<int64_t> positions_;
  std::vector<std::vector<int32_t>> masks_;
  std::vector<int32_t> vocab_mask_, prefix_vocab_mask_;
  std::unique_ptr<EncoderDecoder> pair_;  // null: a decoder alone
  int64_t runs_ = 0;
};

// An input of one number; `otherwise` when omitted.
int64_t IntInput(const OpContext& context, int place, const char* what, int64_t otherwise);
float FloatInput(const OpContext& context, int place, const char* what, float otherwise);

// Output types of the searches: sequences and what else there is; looks through the decoder too.
void InferTokenSearch(InferContext& context);

}  // namespace ferry

// Models of two graphs, as BeamSearch holds them (T5, Whisper): an encoder that reads the input once and, in most
// files, scores the first token as well; and a decoder that is run token by token. What the decoder remembers of the
// tokens grows, what it knows of the input stays.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/context.h"

namespace ferry {

// One row of int32 each; all of one length.
Tensor TokenTable(const std::vector<std::vector<int32_t>>& rows);

class EncoderDecoder {
 public:
  // `mask`: of the input, where the model takes one.
  EncoderDecoder(OpContext& context, const Tensor& input, std::optional<Tensor> mask, int64_t beams);

  // The scores of the next token, [inputs or sequences, length, words]; `from` says which sequence of the last call
  // each one goes on from.
  Value Next(const std::vector<std::vector<int32_t>>& sequences, std::span<const int64_t> from);
  bool encoder_scores() const { return encoder_scores_; }

 private:
  Value Encode(const std::vector<std::vector<int32_t>>& sequences);
  Value Decode(const std::vector<std::vector<int32_t>>& sequences, std::span<const int64_t> from);
  void FindDecoderInputs();
  void Remember(const std::vector<Value>& encoded);

  OpContext& context_;
  const Tensor input_;
  const std::optional<Tensor> mask_;
  const int64_t beams_;
  bool encoder_scores_ = false;  // known before the first run
  bool whole_sequences_ = true;  // the decoder gets all tokens each time, not the last one
  std::vector<Value> inputs_;    // of the decoder, in its order
  std::vector<size_t> caches_;   // their places: keys and values of tokens, then those of the input
  int64_t encodings_ = 0, decodings_ = 0;
};

}  // namespace ferry

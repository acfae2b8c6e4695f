// Text to the numbers that a language model works on, and back: what Hugging Face's tokenizer.json describes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generate/added_tokens.h"
#include "generate/pre_tokenizer.h"
#include "generate/token_decoder.h"
#include "generate/token_model.h"

namespace ferry {

// May be used by many threads at once.
class Tokenizer {
 public:
  static std::shared_ptr<const Tokenizer> Open(const std::string& path);
  // Throws kInvalidModel for what is no tokenizer, kUnsupported naming a part that Ferry does not know.
  static std::shared_ptr<const Tokenizer> Parse(std::string_view json);

  // `add_special`: with the tokens that the file puts around a text (beginning of sequence …). Bytes that are not UTF-8
  // are taken as U+FFFD.
  std::vector<TokenId> Encode(std::string_view text, bool add_special = true) const;
  // Numbers that no token has are an error; `skip_special` leaves special tokens out.
  std::string Decode(std::span<const TokenId> ids, bool skip_special = true) const;

  TokenId Find(const std::string& token) const;  // kNoToken: there is none
  const std::string* TextOf(TokenId id) const;   // as the vocabulary has it; null: there is none
  bool IsSpecial(TokenId id) const { return added_.IsSpecial(id); }
  size_t size() const;  // one more than the largest number

 private:
  Tokenizer() = default;
  void EncodePiece(const Word& piece, std::vector<TokenId>& ids) const;
  void ReadPostProcessor(const Json& json, int depth);

  std::unique_ptr<const Normalizer> normalizer_;
  std::unique_ptr<const PreTokenizer> pre_tokenizer_;
  std::unique_ptr<const TokenModel> model_;
  std::unique_ptr<const TokenDecoder> decoder_;
  AddedTokens added_;
  std::vector<TokenId> before_, after_;  // what the file puts around a text
};

// Tokens that come one by one, as text that never ends in the middle of a character.
class TextStream {
 public:
  explicit TextStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  // What can be shown now; may be empty.
  std::string Add(TokenId id);
  // What is left, broken characters as U+FFFD.
  std::string Finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::vector<TokenId> ids_;  // a few that were shown, for what they do to their successors, and those that were not
  size_t shown_ids_ = 0;
  std::string shown_;  // the text of the ids that were shown
};

}  // namespace ferry

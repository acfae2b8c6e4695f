// Tokens that stand in the text as they are, whatever the other stages would make of them.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "generate/normalizer.h"
#include "generate/token_model.h"

namespace ferry {

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(const Json& json, const Normalizer* normalizer);

  struct Piece {
    size_t begin, end;
    TokenId id;  // kNoToken: text between tokens
  };
  // Tokens that are looked for before text is normalised, or those after that.
  std::vector<Piece> Split(std::string_view text, bool in_normalized) const;

  TokenId Find(const std::string& content) const;
  const std::string* TextOf(TokenId id) const;
  bool IsSpecial(TokenId id) const { return special_.count(id) > 0; }
  size_t room() const { return room_; }  // one more than the largest number

 private:
  struct Token {
    std::string content;
    TokenId id;
    bool lstrip, rstrip, single_word;
  };
  // The longest token at the front of `text`.
  static const Token* Longest(const std::vector<Token>& tokens, std::string_view text);

  std::vector<Token> plain_, normalized_;  // by their bytes
  std::unordered_map<TokenId, std::string> texts_;
  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_set<TokenId> special_;
  size_t room_ = 0;
};

}  // namespace ferry

// The third stage of a tokenizer: a word to numbers of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"

namespace ferry {

using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;
// Numbers of tokens are below this: a table of them must not be made huge by one line of a file.
inline constexpr int64_t kMostTokens = 16 * 1024 * 1024;
// The search for tokens takes time with the longest one.
inline constexpr size_t kLongestToken = 2048;

class Vocabulary {
 public:
  void Add(std::string token, int64_t id);
  TokenId Find(std::string_view token) const;
  // Null: no token has this number.
  const std::string* TextOf(TokenId id) const;
  size_t size() const { return ids_.size(); }
  size_t room() const { return texts_.size(); }  // one more than the largest number
  size_t longest() const { return longest_; }    // in bytes

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> texts_;  // pointing at the keys
  size_t longest_ = 0;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual void Encode(const std::string& word, std::vector<TokenId>& ids) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  // {"token": 0, …}
  void ReadVocabulary(const Json& json);
  Vocabulary vocabulary_;
};

// Throws kUnsupported naming a type that it does not know.
std::unique_ptr<const TokenModel> MakeTokenModel(const Json& json);
std::unique_ptr<const TokenModel> MakeBpe(const Json& json);
std::unique_ptr<const TokenModel> MakeUnigram(const Json& json);

}  // namespace ferry

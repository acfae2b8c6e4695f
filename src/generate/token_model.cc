#include "generate/token_model.h"

#include <algorithm>

#include "base/utf8.h"
#include "generate/component.h"

namespace ferry {

void Vocabulary::Add(std::string token, int64_t id) {
  if (id < 0 || id >= kMostTokens)
    Fail(ErrorCode::kInvalidModel, "token '", Printable(token), "' has the number ", id, ", must be 0 to ",
         kMostTokens - 1);
  if (token.size() > kLongestToken)
    Fail(ErrorCode::kLimit, "token ", id, " has ", token.size(), " bytes, at most ", kLongestToken, " are taken");
  longest_ = std::max(longest_, token.size());
  const auto [known, is_new] = ids_.try_emplace(std::move(token), static_cast<TokenId>(id));
  if (!is_new) known->second = static_cast<TokenId>(id);
  if (static_cast<size_t>(id) >= texts_.size()) texts_.resize(static_cast<size_t>(id) + 1);
  texts_[static_cast<size_t>(id)] = &known->first;
}

TokenId Vocabulary::Find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? kNoToken : found->second;
}

const std::string* Vocabulary::TextOf(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < texts_.size() ? texts_[static_cast<size_t>(id)] : nullptr;
}

void TokenModel::ReadVocabulary(const Json& json) {
  for (const auto& [token, id] : json.AsObject()) vocabulary_.Add(token, id.AsInt());
}

namespace {

// BERT's: the longest token that fits, again and again; a word that does not come out even is unknown as a whole.
class WordPiece : public TokenModel {
 public:
  explicit WordPiece(const Json& json)
      : prefix_(TextOr(json, "continuing_subword_prefix", "##")),
        most_characters_(std::min<int64_t>(IntOr(json, "max_input_chars_per_word", 100), 10'000)) {
    ReadVocabulary(json.At("vocab"));
    const std::string unknown = TextOr(json, "unk_token", "[UNK]");
    unknown_ = vocabulary_.Find(unknown);
    if (unknown_ == kNoToken)
      Fail(ErrorCode::kInvalidModel, "the unknown token '", Printable(unknown), "' is not in the vocabulary");
  }

  void Encode(const std::string& word, std::vector<TokenId>& ids) const override {
    const auto characters = std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xC0) != 0x80; });
    if (characters > most_characters_) return ids.push_back(unknown_);
    const size_t before = ids.size();
    for (size_t begin = 0; begin < word.size();) {
      std::string piece = begin > 0 ? prefix_ : std::string();
      const size_t own = piece.size();
      piece += std::string_view(word).substr(begin, vocabulary_.longest());
      TokenId found = kNoToken;
      while (piece.size() > own && (found = vocabulary_.Find(piece)) == kNoToken) piece.pop_back();
      if (found == kNoToken) {
        ids.resize(before);
        return ids.push_back(unknown_);
      }
      ids.push_back(found);
      begin += piece.size() - own;
    }
  }

 private:
  std::string prefix_;
  int64_t most_characters_;
  TokenId unknown_ = kNoToken;
};

class WordLevel : public TokenModel {
 public:
  explicit WordLevel(const Json& json) {
    ReadVocabulary(json.At("vocab"));
    unknown_ = vocabulary_.Find(TextOr(json, "unk_token", "<unk>"));
  }
  void Encode(const std::string& word, std::vector<TokenId>& ids) const override {
    TokenId id = vocabulary_.Find(word);
    if (id == kNoToken) id = unknown_;
    if (id == kNoToken)
      Fail(ErrorCode::kInvalidArgument, "the word '", Printable(word),
           "' is not in the vocabulary, which has no token "
           "for unknown ones");
    ids.push_back(id);
  }

 private:
  TokenId unknown_ = kNoToken;
};

// Files of early versions do not name the type.
std::string GuessedType(const Json& json) {
  if (IsGiven(json, "type")) return json.At("type").AsString();
  if (IsGiven(json, "merges")) return "BPE";
  if (IsGiven(json, "continuing_subword_prefix") || IsGiven(json, "max_input_chars_per_word")) return "WordPiece";
  return json.At("vocab").is_array() ? "Unigram" : "WordLevel";
}

}  // namespace

std::unique_ptr<const TokenModel> MakeTokenModel(const Json& json) {
  const std::string type = GuessedType(json);
  if (type == "BPE") return MakeBpe(json);
  if (type == "Unigram") return MakeUnigram(json);
  if (type == "WordPiece") return std::make_unique<WordPiece>(json);
  if (type == "WordLevel") return std::make_unique<WordLevel>(json);
  RefuseComponent("model", type);
}

}  // namespace ferry

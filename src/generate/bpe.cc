// Byte-pair encoding: the characters of a word, joined pair by pair in the order in which the pairs were learned.
#include <algorithm>
#include <queue>

#include "base/utf8.h"
#include "generate/byte_letters.h"
#include "generate/component.h"
#include "generate/token_model.h"

namespace ferry {
namespace {

class Bpe : public TokenModel {
 public:
  explicit Bpe(const Json& json)
      : prefix_(TextOr(json, "continuing_subword_prefix", "")),
        suffix_(TextOr(json, "end_of_word_suffix", "")),
        fuse_unknown_(BoolOr(json, "fuse_unk", false)),
        byte_fallback_(BoolOr(json, "byte_fallback", false)),
        ignore_merges_(BoolOr(json, "ignore_merges", false)) {
    if (IsGiven(json, "dropout") && json.At("dropout").AsDouble() != 0)
      Fail(ErrorCode::kUnsupported, "the tokenizer drops merges at random (dropout ", json.At("dropout").AsDouble(),
           "), which is for training");
    ReadVocabulary(json.At("vocab"));
    if (IsGiven(json, "unk_token")) unknown_ = vocabulary_.Find(json.At("unk_token").AsString());
    for (int byte = 0; byte < 256 && byte_fallback_; ++byte)
      byte_tokens_.push_back(vocabulary_.Find(TokenOfByte(static_cast<uint8_t>(byte))));
    ReadMerges(json.At("merges").AsArray());
  }

  void Encode(const std::string& word, std::vector<TokenId>& ids) const override {
    if (ignore_merges_)
      if (const TokenId whole = vocabulary_.Find(word); whole != kNoToken) return ids.push_back(whole);
    std::vector<Symbol> symbols = Characters(word);
    MergeAll(symbols);
    for (size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i].id != kNoToken) ids.push_back(symbols[i].id);
  }

 private:
  struct Merge {
    int32_t rank;
    TokenId made;
  };
  struct Symbol {
    TokenId id;  // kNoToken: joined to the one before it
    int32_t before, after;
  };
  struct Candidate {
    int32_t rank, at;
    TokenId left, right, made;
    bool operator<(const Candidate& other) const {  // the queue gives the largest first
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  static uint64_t Key(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  TokenId PartOfMerge(std::string_view token, size_t merge) const {
    const TokenId id = vocabulary_.Find(token);
    if (id == kNoToken)
      Fail(ErrorCode::kInvalidModel, "merge ", merge, " speaks of '", Printable(token),
           "', which is not in the vocabulary");
    return id;
  }

  // "a b", or ["a", "b"] since tokens may hold blanks.
  void ReadMerges(const Json::Array& merges) {
    merges_.reserve(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      std::string_view left, right;
      if (merges[i].is_array()) {
        const Json::Array& pair = merges[i].AsArray();
        if (pair.size() != 2) Fail(ErrorCode::kInvalidModel, "merge ", i, " has ", pair.size(), " parts instead of 2");
        left = pair[0].AsString();
        right = pair[1].AsString();
      } else {
        const std::string_view text = merges[i].AsString();
        const size_t blank = text.find(' ');
        if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos)
          Fail(ErrorCode::kInvalidModel, "merge ", i, " ('", Printable(text), "') is not two tokens");
        left = text.substr(0, blank);
        right = text.substr(blank + 1);
      }
      std::string made(left);
      if (right.size() < prefix_.size()) Fail(ErrorCode::kInvalidModel, "merge ", i, " has a part without its prefix");
      made += right.substr(prefix_.size());
      const TokenId first = PartOfMerge(left, i), second = PartOfMerge(right, i);
      merges_[Key(first, second)] = {static_cast<int32_t>(i), PartOfMerge(made, i)};
    }
  }

  std::vector<Symbol> Characters(const std::string& word) const {
    std::vector<Symbol> symbols;
    auto add = [&](TokenId id) {
      const auto at = static_cast<int32_t>(symbols.size());
      if (at > 0) symbols.back().after = at;
      symbols.push_back({id, at - 1, -1});
    };
    bool was_unknown = false;
    std::string text;
    for (size_t position = 0; position < word.size();) {
      const size_t begin = position;
      NextCodePoint(word, position);
      const std::string_view character = std::string_view(word).substr(begin, position - begin);
      text = begin > 0 ? prefix_ : std::string();
      text += character;
      if (position == word.size()) text += suffix_;
      const TokenId id = vocabulary_.Find(text);
      const bool by_bytes = id == kNoToken && byte_fallback_ && HasBytes(text);
      if (by_bytes)
        for (char byte : text) add(byte_tokens_[static_cast<uint8_t>(byte)]);
      else if (id != kNoToken)
        add(id);
      else if (unknown_ != kNoToken && !(fuse_unknown_ && was_unknown))
        add(unknown_);
      was_unknown = id == kNoToken && !by_bytes;
    }
    return symbols;
  }

  bool HasBytes(std::string_view text) const {
    return std::all_of(text.begin(), text.end(),
                       [this](char byte) { return byte_tokens_[static_cast<uint8_t>(byte)] != kNoToken; });
  }

  void MergeAll(std::vector<Symbol>& symbols) const {
    std::priority_queue<Candidate> queue;
    auto offer = [&](int32_t at) {
      if (at < 0) return;
      const Symbol& left = symbols[static_cast<size_t>(at)];
      if (left.after < 0) return;
      const TokenId right = symbols[static_cast<size_t>(left.after)].id;
      const auto merge = merges_.find(Key(left.id, right));
      if (merge != merges_.end()) queue.push({merge->second.rank, at, left.id, right, merge->second.made});
    };
    for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<int32_t>(i));
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Symbol& left = symbols[static_cast<size_t>(best.at)];
      if (left.id != best.left || left.after < 0) continue;
      Symbol& right = symbols[static_cast<size_t>(left.after)];
      if (right.id != best.right) continue;  // one of the two has been joined to another since
      left.id = best.made;
      right.id = kNoToken;
      left.after = right.after;
      if (right.after >= 0) symbols[static_cast<size_t>(right.after)].before = best.at;
      offer(best.at);
      offer(left.before);
    }
  }

  std::string prefix_, suffix_;
  bool fuse_unknown_, byte_fallback_, ignore_merges_;
  TokenId unknown_ = kNoToken;
  std::vector<TokenId> byte_tokens_;
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace

std::unique_ptr<const TokenModel> MakeBpe(const Json& json) { return std::make_unique<Bpe>(json); }

}  // namespace ferry

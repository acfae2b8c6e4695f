// SentencePiece's unigram model: the way through a word whose tokens have the highest scores together (Viterbi).
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "generate/byte_letters.h"
#include "generate/component.h"
#include "generate/token_model.h"

namespace ferry {
namespace {

class Unigram : public TokenModel {
 public:
  explicit Unigram(const Json& json) : byte_fallback_(BoolOr(json, "byte_fallback", false)) {
    const Json::Array& entries = json.At("vocab").AsArray();
    double lowest = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < entries.size(); ++i) {
      const Json::Array& entry = entries[i].AsArray();
      if (entry.size() != 2)
        Fail(ErrorCode::kInvalidModel, "entry ", i, " of the vocabulary is not a token and a score");
      const double score = entry[1].AsDouble();
      if (std::isnan(score)) Fail(ErrorCode::kInvalidModel, "entry ", i, " of the vocabulary has no score");
      vocabulary_.Add(entry[0].AsString(), static_cast<int64_t>(i));
      tokens_.push_back({entry[0].AsString(), score, static_cast<TokenId>(i)});
      lowest = std::min(lowest, score);
    }
    unknown_score_ = lowest - 10;
    const int64_t unknown = IntOr(json, "unk_id", -1);
    if (unknown < -1 || unknown >= static_cast<int64_t>(entries.size()))
      Fail(ErrorCode::kInvalidModel, "unk_id is ", unknown, ", the vocabulary has ", entries.size(), " tokens");
    unknown_ = static_cast<TokenId>(unknown);
    // Of tokens with the same text the last one counts.
    std::stable_sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) { return a.text < b.text; });
  }

  void Encode(const std::string& word, std::vector<TokenId>& ids) const override {
    std::vector<Step> best = Search(word);
    std::vector<std::pair<size_t, size_t>> parts;  // from the last to the first
    bool was_unknown = false;
    for (size_t end = word.size(); end > 0; end = best[end].begin) {
      const bool is_unknown = best[end].id == unknown_;
      if (is_unknown && was_unknown)
        parts.back().first = best[end].begin;
      else
        parts.push_back({best[end].begin, end});
      was_unknown = is_unknown;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      AddToken(std::string_view(word).substr(part->first, part->second - part->first), ids);
  }

 private:
  struct Token {
    std::string text;
    double score;
    TokenId id;
  };
  // The best way to a place in the word.
  struct Step {
    TokenId id = kNoToken;
    double score = 0;
    size_t begin = std::string::npos;
  };

  std::vector<Step> Search(const std::string& word) const {
    std::vector<Step> best(word.size() + 1);
    for (size_t begin = 0; begin < word.size();) {
      size_t next = begin;
      NextCodePoint(word, next);
      const double before = best[begin].score;
      auto offer = [&](size_t end, TokenId id, double score) {
        if (best[end].begin == std::string::npos || before + score > best[end].score)
          best[end] = {id, before + score, begin};
      };
      bool has_single = false;
      ForPrefixes(std::string_view(word).substr(begin), [&](const Token& token) {
        offer(begin + token.text.size(), token.id, token.score);
        has_single |= begin + token.text.size() == next;
      });
      if (!has_single) {
        if (unknown_ == kNoToken)
          Fail(ErrorCode::kInvalidArgument, "the vocabulary has no token for '",
               Printable(std::string_view(word).substr(begin, next - begin)), "' and none for unknown characters");
        offer(next, unknown_, unknown_score_);
      }
      begin = next;
    }
    return best;
  }

  // Every token that the text begins with, from the shortest on: the sorted tokens that share the letters so far lie
  // together, those that end there first.
  template <class Use>
  void ForPrefixes(std::string_view text, const Use& use) const {
    auto begin = tokens_.begin(), end = tokens_.end();
    for (size_t length = 1; length <= std::min(text.size(), vocabulary_.longest()); ++length) {
      const auto letter = static_cast<unsigned char>(text[length - 1]);
      auto at = [length](const Token& token) {
        return token.text.size() < length ? -1 : static_cast<int>(static_cast<unsigned char>(token.text[length - 1]));
      };
      begin = std::lower_bound(begin, end, letter, [&](const Token& token, int wanted) { return at(token) < wanted; });
      end = std::upper_bound(begin, end, letter, [&](int wanted, const Token& token) { return wanted < at(token); });
      if (begin == end) return;
      if (begin->text.size() != length) continue;
      auto last = begin;
      while (last + 1 != end && (last + 1)->text.size() == length) ++last;
      use(*last);
    }
  }

  void AddToken(std::string_view text, std::vector<TokenId>& ids) const {
    const TokenId id = vocabulary_.Find(text);
    if (id != kNoToken) return ids.push_back(id);
    const size_t before = ids.size();
    for (size_t i = 0; i < text.size() && byte_fallback_; ++i) {
      const TokenId byte = vocabulary_.Find(TokenOfByte(static_cast<uint8_t>(text[i])));
      if (byte == kNoToken) break;
      ids.push_back(byte);
    }
    if (byte_fallback_ && ids.size() == before + text.size()) return;
    ids.resize(before);
    ids.push_back(unknown_);
  }

  bool byte_fallback_;
  std::vector<Token> tokens_;  // by their bytes
  double unknown_score_ = 0;
  TokenId unknown_ = kNoToken;
};

}  // namespace

std::unique_ptr<const TokenModel> MakeUnigram(const Json& json) { return std::make_unique<Unigram>(json); }

}  // namespace ferry

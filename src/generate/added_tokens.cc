#include "generate/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "generate/component.h"
#include "generate/unicode.h"

namespace ferry {

using namespace unicode;

namespace {

size_t CharacterBefore(std::string_view text, size_t position) {
  do --position;
  while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

bool IsWordAt(std::string_view text, size_t position) {
  return position < text.size() && IsWordCharacter(NextCodePoint(text, position));
}

size_t BlanksBefore(std::string_view text, size_t position, size_t floor) {
  while (position > floor) {
    const size_t before = CharacterBefore(text, position);
    size_t at = before;
    if (before < floor || !IsWhitespace(NextCodePoint(text, at))) break;
    position = before;
  }
  return position;
}

size_t BlanksAfter(std::string_view text, size_t position) {
  while (position < text.size()) {
    size_t next = position;
    if (!IsWhitespace(NextCodePoint(text, next))) break;
    position = next;
  }
  return position;
}

}  // namespace

AddedTokens::AddedTokens(const Json& json, const Normalizer* normalizer) {
  for (const Json& entry : json.AsArray()) {
    const std::string& content = entry.At("content").AsString();
    const int64_t id = entry.At("id").AsInt();
    if (id < 0 || id >= kMostTokens)
      Fail(ErrorCode::kInvalidModel, "the added token '", Printable(content), "' has the number ", id);
    if (content.size() > kLongestToken)
      Fail(ErrorCode::kLimit, "added token ", id, " has ", content.size(), " bytes, at most ", kLongestToken,
           " are taken");
    const auto number = static_cast<TokenId>(id);
    const bool is_special = BoolOr(entry, "special", false), is_normalized = BoolOr(entry, "normalized", !is_special);
    room_ = std::max(room_, static_cast<size_t>(id) + 1);
    texts_[number] = content;
    ids_[content] = number;
    if (is_special) special_.insert(number);
    Token token{is_normalized && normalizer ? normalizer->Apply(content) : content, number,
                BoolOr(entry, "lstrip", false), BoolOr(entry, "rstrip", false), BoolOr(entry, "single_word", false)};
    if (!token.content.empty()) (is_normalized ? normalized_ : plain_).push_back(std::move(token));
  }
  for (std::vector<Token>* tokens : {&plain_, &normalized_})
    std::stable_sort(tokens->begin(), tokens->end(),
                     [](const Token& a, const Token& b) { return a.content < b.content; });
}

const AddedTokens::Token* AddedTokens::Longest(const std::vector<Token>& tokens, std::string_view text) {
  const Token* longest = nullptr;
  auto begin = tokens.begin(), end = tokens.end();
  for (size_t length = 1; length <= text.size(); ++length) {
    const auto letter = static_cast<unsigned char>(text[length - 1]);
    auto at = [length](const Token& token) {
      return token.content.size() < length ? -1
                                           : static_cast<int>(static_cast<unsigned char>(token.content[length - 1]));
    };
    begin = std::lower_bound(begin, end, letter, [&](const Token& token, int wanted) { return at(token) < wanted; });
    end = std::upper_bound(begin, end, letter, [&](int wanted, const Token& token) { return wanted < at(token); });
    if (begin == end) break;
    if (begin->content.size() == length) longest = &*begin;
  }
  return longest;
}

std::vector<AddedTokens::Piece> AddedTokens::Split(std::string_view text, bool in_normalized) const {
  const std::vector<Token>& tokens = in_normalized ? normalized_ : plain_;
  std::vector<Piece> pieces;
  size_t done = 0;
  for (size_t at = 0; at < text.size() && !tokens.empty();) {
    const Token* token = Longest(tokens, text.substr(at));
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    at = end;
    const bool stands_alone =
        (begin == 0 || !IsWordAt(text, CharacterBefore(text, begin))) && (end == text.size() || !IsWordAt(text, end));
    if (token->single_word && !stands_alone) continue;
    if (token->lstrip) begin = BlanksBefore(text, begin, done);
    if (token->rstrip) end = BlanksAfter(text, end);
    begin = std::max(begin, done);
    if (begin > done) pieces.push_back({done, begin, kNoToken});
    pieces.push_back({begin, end, token->id});
    done = end;
    at = std::max(at, done);
  }
  if (done < text.size()) pieces.push_back({done, text.size(), kNoToken});
  return pieces;
}

TokenId AddedTokens::Find(const std::string& content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? kNoToken : found->second;
}

const std::string* AddedTokens::TextOf(TokenId id) const {
  const auto found = texts_.find(id);
  return found == texts_.end() ? nullptr : &found->second;
}

}  // namespace ferry

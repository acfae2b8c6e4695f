// Regular expressions as tokenizers write them (Oniguruma's syntax): Unicode classes, look-ahead, possessive
// repetition. RE2 has no look-ahead, which every byte-level tokenizer uses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

inline constexpr size_t kMostText = size_t{64} << 20;  // bytes that a tokenizer works on at once

// A set of characters: ranges, categories and other sets, all of them or all others.
struct CharacterSet {
  struct Range {
    uint32_t first, last;
  };
  std::vector<Range> ranges;
  uint32_t categories = 0;
  bool spaces = false, words = false, han = false;
  bool any_case = false;
  bool negated = false;
  std::vector<CharacterSet> parts;

  bool Has(uint32_t code_point) const;
};

class Pattern {
 public:
  // Throws kUnsupported naming what it does not know, kInvalidModel for what is no expression.
  static Pattern Regex(std::string_view expression);
  static Pattern Literal(std::string_view text);

  // The leftmost match at or after `from`, the first alternative that leads to one. Throws kLimit for an expression
  // that takes too long on this text.
  bool Find(std::string_view text, size_t from, size_t& begin, size_t& end) const;

  struct Match {
    size_t begin, end;
    bool is_match;
  };
  // The whole text in pieces: matches and what lies between them. Empty matches are passed over.
  std::vector<Match> Pieces(std::string_view text) const;
  std::string ReplaceAll(std::string_view text, std::string_view by) const;

 private:
  friend class PatternCompiler;
  friend class PatternMatcher;

  enum class Op : uint8_t {
    kSet,        // a character of sets_[a]
    kSplit,      // go on at a; if that fails, at b
    kJump,       // to a
    kLook,       // what follows up to b must match (a: 0) or must not (a: 1)
    kLookBack,   // the character before must be of sets_[b] (a: 0) or not (a: 1)
    kAtomic,     // what follows up to b matches in one way only
    kTextBegin,  // also kTextEnd, kLineBegin …
    kTextEnd,
    kLineBegin,
    kLineEnd,
    kBoundary,  // of a word (a: 0) or not one (a: 1)
    kAccept,
  };
  struct Instruction {
    Op op;
    int32_t a = 0, b = 0;
  };

  std::string literal_;
  bool is_literal_ = false;
  std::vector<Instruction> program_;
  std::vector<CharacterSet> sets_;
  std::vector<std::vector<bool>> ascii_;  // of each set, for the first 128
};

}  // namespace ferry

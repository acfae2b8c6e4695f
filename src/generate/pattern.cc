#include "generate/pattern.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "generate/unicode.h"

namespace ferry {

using namespace unicode;

bool CharacterSet::Has(uint32_t c) const {
  auto has = [this](uint32_t code_point) {
    for (const Range& range : ranges)
      if (code_point >= range.first && code_point <= range.last) return true;
    if (categories && (categories & CategoryBit(code_point))) return true;
    if (spaces && IsWhitespace(code_point)) return true;
    if (words && IsWordCharacter(code_point)) return true;
    if (han && IsHan(code_point)) return true;
    for (const CharacterSet& part : parts)
      if (part.Has(code_point)) return true;
    return false;
  };
  bool found = has(c);
  if (!found && any_case) found = has(LowerOf(c)) || has(UpperOf(c)) || has(LowerOf(UpperOf(c)));
  return found != negated;
}

namespace {

constexpr int kMostNesting = 50;
constexpr int64_t kMostRepeats = 1000;
constexpr size_t kMostInstructions = 20'000;
constexpr int64_t kNoEnd = -1;

struct Repeat {
  int64_t least = 1, most = 1;
  bool lazy = false, possessive = false;
};

}  // namespace

// Recursive descent; each function compiles what it reads to the end of the program.
class PatternCompiler {
 public:
  PatternCompiler(std::string_view text, Pattern& out) : text_(text), out_(out) {}

  void Compile() {
    Alternatives(0);
    if (position_ < text_.size()) FailHere("a ')' too many");
    Emit(Pattern::Op::kAccept);
    for (const CharacterSet& set : out_.sets_) {
      std::vector<bool>& ascii = out_.ascii_.emplace_back(128);
      for (uint32_t c = 0; c < 128; ++c) ascii[c] = set.Has(c);
    }
  }

 private:
  using Op = Pattern::Op;
  using Code = std::vector<Pattern::Instruction>;

  [[noreturn]] void FailHere(const char* what) const {
    Fail(ErrorCode::kInvalidModel, "the pattern \"", Printable(text_), "\" has ", what, " at byte ", position_);
  }
  [[noreturn]] void Refuse(std::string_view what) const {
    Fail(ErrorCode::kUnsupported, "the pattern \"", Printable(text_), "\" uses ", Printable(what), " at byte ",
         position_, ", which is not supported");
  }

  bool AtEnd() const { return position_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[position_]; }
  bool Take(std::string_view word) {
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }
  uint32_t TakeCharacter() {
    const uint32_t c = NextCodePoint(text_, position_);
    if (c == kInvalidCodePoint) FailHere("bytes that are not UTF-8");
    return c;
  }

  int32_t Here() const { return static_cast<int32_t>(out_.program_.size()); }
  int32_t Emit(Op op, int32_t a = 0, int32_t b = 0) {
    if (out_.program_.size() >= kMostInstructions) FailHere("too many parts");
    out_.program_.push_back({op, a, b});
    return Here() - 1;
  }
  void EmitSet(CharacterSet set) {
    set.any_case |= any_case_;
    out_.sets_.push_back(std::move(set));
    Emit(Op::kSet, static_cast<int32_t>(out_.sets_.size()) - 1);
  }

  // Code that was compiled at `from` on, to be put elsewhere: its jumps are made relative to its own begin.
  Code Cut(int32_t from) {
    Code code(out_.program_.begin() + from, out_.program_.end());
    out_.program_.resize(static_cast<size_t>(from));
    Shift(code, -from);
    return code;
  }
  static void Shift(Code& code, int32_t by) {
    for (Pattern::Instruction& i : code) {
      if (i.op == Op::kSplit || i.op == Op::kJump) i.a += by;
      if (i.op == Op::kSplit || i.op == Op::kLook || i.op == Op::kAtomic) i.b += by;
    }
  }
  void Append(Code code) {
    Shift(code, Here());
    for (const Pattern::Instruction& i : code) Emit(i.op, i.a, i.b);
  }

  // Gives whether it can match nothing at all.
  bool Alternatives(int depth) {
    if (depth > kMostNesting) FailHere("groups nested too deeply");
    const bool case_before = any_case_;
    std::vector<int32_t> jumps;
    bool may_be_empty = false;
    while (true) {
      const int32_t begin = Here();
      may_be_empty |= Sequence(depth);
      if (!Take("|")) break;
      Code code = Cut(begin);
      const int32_t split = Emit(Op::kSplit, begin + 1);
      Append(std::move(code));
      jumps.push_back(Emit(Op::kJump));
      out_.program_[static_cast<size_t>(split)].b = Here();
    }
    for (int32_t jump : jumps) out_.program_[static_cast<size_t>(jump)].a = Here();
    any_case_ = case_before;
    return may_be_empty;
  }

  bool Sequence(int depth) {
    bool may_be_empty = true;
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      const int32_t begin = Here();
      bool empty = Atom(depth);
      Repeat repeat;
      while (TakeRepeat(repeat)) empty = EmitRepeat(begin, repeat, empty);
      may_be_empty &= empty;
    }
    return may_be_empty;
  }

  int64_t TakeNumber() {
    if (Peek() < '0' || Peek() > '9') return kNoEnd;
    int64_t number = 0;
    while (Peek() >= '0' && Peek() <= '9') {
      number = number * 10 + (text_[position_++] - '0');
      if (number > kMostRepeats) FailHere("a repetition of more than 1000");
    }
    return number;
  }

  bool TakeRepeat(Repeat& repeat) {
    repeat = {};
    if (Take("*")) {
      repeat = {0, kNoEnd};
    } else if (Take("+")) {
      repeat = {1, kNoEnd};
    } else if (Take("?")) {
      repeat = {0, 1};
    } else if (Peek() == '{') {
      const size_t before = position_++;
      repeat.least = TakeNumber();
      repeat.most = repeat.least;
      const bool has_comma = Take(",");
      if (has_comma) repeat.most = TakeNumber();
      const bool is_repeat = Take("}") && (repeat.least >= 0 || repeat.most >= 0);
      if (!is_repeat) {  // a brace that stands for itself
        position_ = before;
        return false;
      }
      repeat.least = std::max<int64_t>(repeat.least, 0);
      if (repeat.most != kNoEnd && repeat.most < repeat.least) FailHere("a repetition with its bounds reversed");
      repeat.lazy = Take("?");
      return true;
    } else {
      return false;
    }
    repeat.lazy = Take("?");
    repeat.possessive = !repeat.lazy && Take("+");
    return true;
  }

  bool EmitRepeat(int32_t begin, const Repeat& repeat, bool body_may_be_empty) {
    if (body_may_be_empty && repeat.most == kNoEnd) Refuse("a repetition of something that may be empty");
    Code body = Cut(begin);
    const int32_t atomic = repeat.possessive ? Emit(Op::kAtomic) : -1;
    for (int64_t i = 0; i < repeat.least; ++i) Append(body);
    auto split = [&](int32_t go_on) {  // `go_on`: the body comes next
      const int32_t at = Emit(Op::kSplit);
      (repeat.lazy ? out_.program_[static_cast<size_t>(at)].b : out_.program_[static_cast<size_t>(at)].a) = go_on;
      return at;
    };
    auto set_leave = [&](int32_t at) {
      (repeat.lazy ? out_.program_[static_cast<size_t>(at)].a : out_.program_[static_cast<size_t>(at)].b) = Here();
    };
    if (repeat.most == kNoEnd) {
      const int32_t at = split(Here() + 1);
      Append(body);
      Emit(Op::kJump, at);
      set_leave(at);
    } else {
      std::vector<int32_t> splits;
      for (int64_t i = repeat.least; i < repeat.most; ++i) {
        splits.push_back(split(Here() + 1));
        Append(body);
      }
      for (int32_t at : splits) set_leave(at);
    }
    if (atomic >= 0) {
      Emit(Op::kAccept);
      out_.program_[static_cast<size_t>(atomic)].b = Here();
    }
    return repeat.least == 0 || body_may_be_empty;
  }

  bool Atom(int depth) {
    if (Take("(")) return Group(depth);
    if (Take("[")) {
      EmitSet(Class(depth));
      return false;
    }
    if (Take(".")) {
      EmitSet({.ranges = {{'\n', '\n'}}, .negated = true});
      return false;
    }
    if (Take("^")) return Emit(Op::kLineBegin), true;
    if (Take("$")) return Emit(Op::kLineEnd), true;
    if (Take("\\A")) return Emit(Op::kTextBegin), true;
    if (Take("\\z")) return Emit(Op::kTextEnd), true;
    if (Take("\\b")) return Emit(Op::kBoundary, 0), true;
    if (Take("\\B")) return Emit(Op::kBoundary, 1), true;
    if (Take("\\")) {
      EmitSet(Escape());
      return false;
    }
    if (Peek() == '*' || Peek() == '+' || Peek() == '?') FailHere("a repetition of nothing");
    const uint32_t c = TakeCharacter();
    EmitSet({.ranges = {{c, c}}});
    return false;
  }

  void Close() {
    if (!Take(")")) FailHere("no ')' where one is needed");
  }

  bool Group(int depth) {
    const bool case_before = any_case_;
    if (Take("?=") || Take("?!")) {
      const int32_t look = Emit(Op::kLook, text_[position_ - 1] == '!');
      Alternatives(depth + 1);
      Emit(Op::kAccept);
      out_.program_[static_cast<size_t>(look)].b = Here();
      Close();
      return true;
    }
    if (Take("?<=") || Take("?<!")) {
      const bool negated = text_[position_ - 1] == '!';
      const int32_t begin = Here();
      Alternatives(depth + 1);
      Code code = Cut(begin);
      if (code.size() != 1 || code[0].op != Op::kSet) Refuse("a look-behind of more than one character");
      Emit(Op::kLookBack, negated, code[0].a);
      Close();
      return true;
    }
    if (Take("?>")) {
      const int32_t atomic = Emit(Op::kAtomic);
      const bool empty = Alternatives(depth + 1);
      Emit(Op::kAccept);
      out_.program_[static_cast<size_t>(atomic)].b = Here();
      Close();
      return empty;
    }
    if (Take("?i:")) {
      any_case_ = true;
    } else if (Take("?i)")) {
      any_case_ = true;  // to the end of the group around it
      return true;
    } else if (Take("?-i:")) {
      any_case_ = false;
    } else if (!Take("?:") && Peek() == '?') {
      Refuse(Cat("a group '(", text_.substr(position_, 3), "'"));
    }
    const bool empty = Alternatives(depth + 1);
    any_case_ = case_before;
    Close();
    return empty;
  }

  CharacterSet Class(int depth) {
    if (depth > kMostNesting) FailHere("classes nested too deeply");
    CharacterSet set;
    set.negated = Take("^");
    bool is_first = true;
    while (is_first || Peek() != ']') {
      if (AtEnd()) FailHere("a class without an end");
      is_first = false;
      if (text_.substr(position_, 2) == "&&") Refuse("an intersection of classes");
      if (text_.substr(position_, 2) == "[:") Refuse("a POSIX class");
      if (Take("[")) {
        set.parts.push_back(Class(depth + 1));
        continue;
      }
      CharacterSet one = TakeClassMember();
      const bool is_character = one.ranges.size() == 1 && one.ranges[0].first == one.ranges[0].last && !one.negated;
      const bool is_range =
          is_character && Peek() == '-' && position_ + 1 < text_.size() && text_[position_ + 1] != ']';
      if (is_range) {
        ++position_;
        const CharacterSet last = TakeClassMember();
        if (last.ranges.size() != 1 || last.ranges[0].first < one.ranges[0].first) FailHere("a range that is none");
        one.ranges[0].last = last.ranges[0].first;
      }
      if (one.negated)
        set.parts.push_back(std::move(one));
      else
        Join(set, one);
    }
    Take("]");
    return set;
  }

  static void Join(CharacterSet& set, const CharacterSet& more) {
    set.ranges.insert(set.ranges.end(), more.ranges.begin(), more.ranges.end());
    set.categories |= more.categories;
    set.spaces |= more.spaces;
    set.words |= more.words;
    set.han |= more.han;
  }

  CharacterSet TakeClassMember() {
    if (Take("\\")) return Escape();
    const uint32_t c = TakeCharacter();
    return {.ranges = {{c, c}}};
  }

  CharacterSet Escape() {
    if (AtEnd()) FailHere("a '\\' at its end");
    const char letter = text_[position_++];
    switch (letter) {
      case 's': return {.spaces = true};
      case 'S': return {.spaces = true, .negated = true};
      case 'd': return {.categories = CategoriesNamed("Nd")};
      case 'D': return {.categories = CategoriesNamed("Nd"), .negated = true};
      case 'w': return {.words = true};
      case 'W': return {.words = true, .negated = true};
      case 'p':
      case 'P': return Property(letter == 'P');
      case 'n': return One('\n');
      case 'r': return One('\r');
      case 't': return One('\t');
      case 'f': return One('\f');
      case 'v': return One('\v');
      case 'a': return One('\a');
      case 'e': return One(27);
      case 'x': return One(TakeHex(2));
      case 'u': return One(TakeHex(4));
      default: break;
    }
    const bool is_word =
        (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9');
    if (is_word) Refuse(Cat("'\\", letter, "'"));
    --position_;
    return One(TakeCharacter());
  }

  static CharacterSet One(uint32_t c) { return {.ranges = {{c, c}}}; }

  uint32_t TakeHex(int digits) {
    const bool braces = Take("{");
    uint32_t value = 0;
    int taken = 0;
    while (taken < (braces ? 6 : digits) && !AtEnd()) {
      const char c = Peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<uint32_t>(digit);
      ++position_;
      ++taken;
    }
    if (taken == 0 || (braces && !Take("}")) || value >= 0x110000) FailHere("a character's number that is none");
    return value;
  }

  CharacterSet Property(bool negated) {
    if (!Take("{")) FailHere("a property without braces");
    if (Take("^")) negated = !negated;
    const size_t end = text_.find('}', position_);
    if (end == std::string_view::npos) FailHere("a property without an end");
    const std::string_view name = text_.substr(position_, end - position_);
    CharacterSet set{.categories = CategoriesNamed(name), .han = name == "Han", .negated = negated};
    if (name == "Space" || name == "White_Space") set.spaces = true;
    if (!set.categories && !set.han && !set.spaces) Refuse(Cat("the property ", name));
    position_ = end + 1;
    return set;
  }

  const std::string_view text_;
  Pattern& out_;
  size_t position_ = 0;
  bool any_case_ = false;
};

// Tries ways in the order of preference, with the ways not yet tried on a stack of its own.
class PatternMatcher {
 public:
  PatternMatcher(const Pattern& pattern, std::string_view text) : pattern_(pattern), text_(text) {
    steps_left_ = 10'000'000 + 2'000 * static_cast<int64_t>(text.size());
  }

  bool MatchAt(size_t begin, size_t& end) { return Run(0, begin, end); }

 private:
  using Op = Pattern::Op;
  struct Way {
    int32_t at;
    size_t position;
  };

  bool Run(int32_t at, size_t position, size_t& end) {
    const size_t floor = ways_.size();
    while (true) {
      if (--steps_left_ < 0)
        Fail(ErrorCode::kLimit, "a pattern of the tokenizer takes too long on a text of ", text_.size(), " bytes");
      const Pattern::Instruction& i = pattern_.program_[static_cast<size_t>(at)];
      if (i.op == Op::kAccept) {
        end = position;
        ways_.resize(floor);
        return true;
      }
      if (Step(i, at, position)) continue;
      if (ways_.size() == floor) return false;
      at = ways_.back().at;
      position = ways_.back().position;
      ways_.pop_back();
    }
  }

  // False: this way ends here.
  bool Step(const Pattern::Instruction& i, int32_t& at, size_t& position) {
    size_t end = 0;
    bool holds = true;
    switch (i.op) {
      case Op::kSet:
        if (position >= text_.size()) return false;
        holds = TakeCharacter(static_cast<size_t>(i.a), position);
        break;
      case Op::kSplit: ways_.push_back({i.b, position}); [[fallthrough]];
      case Op::kJump: at = i.a; return true;
      case Op::kLook:
        if (Run(at + 1, position, end) != (i.a == 0)) return false;
        at = i.b;
        return true;
      case Op::kAtomic:
        if (!Run(at + 1, position, end)) return false;
        position = end;
        at = i.b;
        return true;
      case Op::kLookBack: {
        size_t before = Before(position);
        holds = (before < position && TakeCharacter(static_cast<size_t>(i.b), before)) == (i.a == 0);
        break;
      }
      case Op::kTextBegin: holds = position == 0; break;
      case Op::kTextEnd: holds = position == text_.size(); break;
      case Op::kLineBegin: holds = position == 0 || text_[position - 1] == '\n'; break;
      case Op::kLineEnd: holds = position == text_.size() || text_[position] == '\n'; break;
      case Op::kBoundary: holds = (IsWordAt(position) != IsWordAt(Before(position), position)) == (i.a == 0); break;
      case Op::kAccept: break;
    }
    ++at;
    return holds;
  }

  bool TakeCharacter(size_t set, size_t& position) const {
    const auto byte = static_cast<unsigned char>(text_[position]);
    if (byte < 128) return ++position, pattern_.ascii_[set][byte];
    return pattern_.sets_[set].Has(NextCodePoint(text_, position));
  }

  size_t Before(size_t position) const {
    if (position == 0) return 0;
    do --position;
    while (position > 0 && (static_cast<unsigned char>(text_[position]) & 0xC0) == 0x80);
    return position;
  }
  bool IsWordAt(size_t position, size_t end = std::string_view::npos) const {
    if (position >= text_.size() || position == end) return false;
    return IsWordCharacter(NextCodePoint(text_, position));
  }

  const Pattern& pattern_;
  const std::string_view text_;
  std::vector<Way> ways_;
  int64_t steps_left_;
};

Pattern Pattern::Regex(std::string_view expression) {
  Pattern made;
  PatternCompiler(expression, made).Compile();
  return made;
}

Pattern Pattern::Literal(std::string_view text) {
  Pattern made;
  made.literal_ = text;
  made.is_literal_ = true;
  return made;
}

bool Pattern::Find(std::string_view text, size_t from, size_t& begin, size_t& end) const {
  if (is_literal_) {
    begin = literal_.empty() ? std::string_view::npos : text.find(literal_, from);
    end = begin + literal_.size();
    return begin != std::string_view::npos;
  }
  PatternMatcher matcher(*this, text);
  for (begin = from; begin <= text.size(); ++begin) {
    if (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) continue;
    if (matcher.MatchAt(begin, end)) return true;
  }
  return false;
}

std::vector<Pattern::Match> Pattern::Pieces(std::string_view text) const {
  std::vector<Match> pieces;
  size_t done = 0, begin = 0, end = 0;
  PatternMatcher matcher(*this, text);
  for (size_t at = 0; at < text.size();) {
    if (is_literal_) {
      if (!Find(text, at, begin, end)) break;
    } else {
      begin = at;
      const bool inside = (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
      if (inside || !matcher.MatchAt(begin, end) || end == begin) {
        ++at;
        continue;
      }
    }
    if (begin > done) pieces.push_back({done, begin, false});
    pieces.push_back({begin, end, true});
    at = done = end;
  }
  if (done < text.size()) pieces.push_back({done, text.size(), false});
  return pieces;
}

std::string Pattern::ReplaceAll(std::string_view text, std::string_view by) const {
  std::string out;
  for (const Match& piece : Pieces(text)) {
    out += piece.is_match ? by : text.substr(piece.begin, piece.end - piece.begin);
    if (out.size() > kMostText) Fail(ErrorCode::kLimit, "a replacement makes more than ", kMostText, " bytes of text");
  }
  return out;
}

}  // namespace ferry

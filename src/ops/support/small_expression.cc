// RE2's expressions without RE2: parsed to a tree, the tree to states, and all states that a text can be in are
// followed at once. Captures and greediness do not matter to whoever asks only whether or how far an expression
// matches.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "ops/support/regular_expression.h"
#include "ops/support/unicode.h"

namespace ferry {
namespace {

constexpr uint32_t kLastCodePoint = 0x10FFFF;
constexpr uint32_t kNoCodePoint = 0xFFFFFFFE;  // before the first and after the last
constexpr int kDeepest = 250, kMostRepeats = 1000;
constexpr size_t kMostStates = 50000;

struct CharacterClass {
  std::vector<std::pair<uint32_t, uint32_t>> ranges;
  std::vector<std::pair<std::string, bool>> named;  // of Unicode, and whether it is those outside
  std::vector<CharacterClass> outside_of;           // \D and the like inside brackets
  bool negated = false, folds_case = false;

  void Add(uint32_t first, uint32_t last) { ranges.emplace_back(first, last); }
  bool Has(uint32_t c) const {
    if (c > kLastCodePoint) return false;
    bool has = HasExactly(c);
    if (!has && folds_case) has = HasExactly(LowerCaseOf(c)) || HasExactly(UpperCaseOf(c));
    return has != negated;
  }

 private:
  bool HasExactly(uint32_t c) const {
    for (const auto& [first, last] : ranges)
      if (c >= first && c <= last) return true;
    for (const auto& [name, outside] : named)
      if (IsInUnicodeClass(name, c) != outside) return true;
    return std::any_of(outside_of.begin(), outside_of.end(), [&](const CharacterClass& each) { return each.Has(c); });
  }
};

enum class Place : uint8_t { kTextBegin, kTextEnd, kLineBegin, kLineEnd, kWordEdge, kNoWordEdge };

struct Tree {
  enum class Kind : uint8_t { kEmpty, kClass, kPlace, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kEmpty;
  Place place{};
  CharacterClass characters;
  std::vector<Tree> parts;
  int least = 0, most = 0;  // most < 0: any number
};

bool IsWord(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

class Parser {
 public:
  explicit Parser(const std::string& pattern) : text_(pattern) {
    if (!IsValidUtf8(pattern)) Refuse("it is not UTF-8");
  }

  Tree Parse() {
    Tree tree = Choice();
    if (!AtEnd()) Refuse("an unexpected ')'");
    return tree;
  }

 private:
  struct Flags {
    bool folds_case = false, dot_all = false, lines = false;
  };

  [[noreturn]] void Refuse(std::string_view why) const {
    Fail(ErrorCode::kInvalidModel, "'", Printable(text_), "' is not a regular expression of RE2: ", why);
  }
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool Take(std::string_view word) {
    if (std::string_view(text_).substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  uint32_t Next() {
    if (AtEnd()) Refuse("it ends too early");
    return NextCodePoint(text_, at_);
  }

  Tree Choice() {
    if (++depth_ > kDeepest) Refuse("its groups are nested too deeply");
    const Flags outside = flags_;
    Tree choice{.kind = Tree::Kind::kChoice};
    do choice.parts.push_back(Sequence());
    while (Take("|"));
    flags_ = outside;
    --depth_;
    return choice.parts.size() == 1 ? std::move(choice.parts[0]) : choice;
  }

  Tree Sequence() {
    Tree sequence{.kind = Tree::Kind::kSequence};
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      if (Take("\\Q")) {
        while (!AtEnd() && !Take("\\E")) sequence.parts.push_back(Repeated(Literal(Next())));
        continue;
      }
      sequence.parts.push_back(Repeated(Atom()));
    }
    return sequence;
  }

  Tree Repeated(Tree atom) {
    for (bool again = false;; again = true) {
      int least = 0, most = -1;
      const size_t before = at_;
      if (Take("*")) {
      } else if (Take("+")) {
        least = 1;
      } else if (Take("?")) {
        most = 1;
      } else if (!Counted(least, most)) {
        return atom;
      }
      if (again) Refuse("two repetitions follow each other");
      if (atom.kind == Tree::Kind::kEmpty && before == 0) Refuse("there is nothing to repeat");
      Take("?");  // lazy: the same texts match
      Tree repeat{.kind = Tree::Kind::kRepeat, .least = least, .most = most};
      repeat.parts.push_back(std::move(atom));
      atom = std::move(repeat);
    }
  }

  // {n}, {n,} and {n,m}; anything else that begins so is a brace.
  bool Counted(int& least, int& most) {
    if (Peek() != '{') return false;
    size_t place = at_ + 1;
    auto number = [&](int& value) {
      const size_t begin = place;
      for (value = 0; place < text_.size() && text_[place] >= '0' && text_[place] <= '9'; ++place)
        value = std::min(value * 10 + (text_[place] - '0'), kMostRepeats + 1);
      return place > begin;
    };
    if (!number(least)) return false;
    most = least;
    if (place < text_.size() && text_[place] == ',') {
      ++place;
      if (place < text_.size() && text_[place] == '}')
        most = -1;
      else if (!number(most))
        return false;
    }
    if (place >= text_.size() || text_[place] != '}') return false;
    if (least > kMostRepeats || most > kMostRepeats || (most >= 0 && most < least))
      Refuse("a repetition's size is bad");
    at_ = place + 1;
    return true;
  }

  Tree Literal(uint32_t c) const {
    Tree literal{.kind = Tree::Kind::kClass};
    literal.characters.Add(c, c);
    literal.characters.folds_case = flags_.folds_case;
    return literal;
  }

  static Tree At(Place place) { return {.kind = Tree::Kind::kPlace, .place = place}; }

  Tree Atom() {
    switch (Peek()) {
      case '(': return Group();
      case '[': return Brackets();
      case '\\': return Escaped();
      case '*':
      case '+':
      case '?': Refuse("there is nothing to repeat");
      case '^': ++at_; return At(flags_.lines ? Place::kLineBegin : Place::kTextBegin);
      case '$': ++at_; return At(flags_.lines ? Place::kLineEnd : Place::kTextEnd);
      case '.': {
        ++at_;
        Tree any{.kind = Tree::Kind::kClass};
        any.characters.negated = true;
        if (!flags_.dot_all) any.characters.Add('\n', '\n');
        return any;
      }
      default: return Literal(Next());
    }
  }

  Tree Group() {
    ++at_;
    Flags outside = flags_;
    if (Take("?")) {
      if (Take("P<") || (Peek() == '<' && Peek(1) != '=' && Peek(1) != '!' && Take("<"))) {
        const size_t begin = at_;
        while (!AtEnd() && Peek() != '>') {
          if (!IsWord(static_cast<unsigned char>(Peek()))) Refuse("a group's name is bad");
          ++at_;
        }
        if (at_ == begin || !Take(">")) Refuse("a group's name is bad");
      } else if (!ReadFlags()) {
        return {};  // they hold to the end of the group around
      }
    }
    Tree inside = Choice();
    if (!Take(")")) Refuse("a ')' is missing");
    flags_ = outside;
    return inside;
  }

  // True when a group follows, as in (?i:…); false after (?i).
  bool ReadFlags() {
    for (bool on = true;; ++at_) {
      switch (Peek()) {
        case 'i': flags_.folds_case = on; break;
        case 's': flags_.dot_all = on; break;
        case 'm': flags_.lines = on; break;
        case 'U': break;  // which of + and +? is lazy
        case '-':
          if (!on) Refuse("a group's flags are bad");
          on = false;
          break;
        case ':': ++at_; return true;
        case ')': ++at_; return false;
        default: Refuse("a group begins in a way that RE2 does not know");
      }
    }
  }

  Tree Escaped() {
    switch (Peek(1)) {
      case 'A': at_ += 2; return At(Place::kTextBegin);
      case 'z': at_ += 2; return At(Place::kTextEnd);
      case 'b': at_ += 2; return At(Place::kWordEdge);
      case 'B': at_ += 2; return At(Place::kNoWordEdge);
      default: break;
    }
    Tree tree{.kind = Tree::Kind::kClass};
    if (!EscapedClass(tree.characters)) {
      ++at_;
      return Literal(EscapedCharacter());
    }
    tree.characters.folds_case = flags_.folds_case;
    return tree;
  }

  // \d and its like, and \p{…}, at the backslash.
  bool EscapedClass(CharacterClass& into) {
    const char letter = Peek(1);
    if (letter == 'p' || letter == 'P') {
      at_ += 2;
      bool outside = letter == 'P';
      std::string name;
      if (Take("{")) {
        if (Take("^")) outside = !outside;
        while (!AtEnd() && Peek() != '}') name += text_[at_++];
        if (!Take("}")) Refuse("a '}' is missing");
      } else {
        AppendCodePoint(name, Next());
      }
      if (name == "Any" || IsUnicodeClass(name)) {
        if (name == "Any" && !outside) into.Add(0, kLastCodePoint);
        if (name != "Any") into.named.emplace_back(name, outside);
        return true;
      }
      Refuse(Cat("there is no class '", Printable(name), "' of characters"));
    }
    CharacterClass made;
    switch (letter) {
      case 'd':
      case 'D': made.Add('0', '9'); break;
      case 's':
      case 'S':
        made.Add('\t', '\n');
        made.Add('\f', '\r');
        made.Add(' ', ' ');
        break;
      case 'w':
      case 'W': AddWords(made); break;
      default: return false;
    }
    at_ += 2;
    Merge(into, std::move(made), letter < 'a');
    return true;
  }

  static void AddWords(CharacterClass& into) {
    into.Add('0', '9');
    into.Add('A', 'Z');
    into.Add('a', 'z');
    into.Add('_', '_');
  }

  static void Merge(CharacterClass& into, CharacterClass made, bool outside) {
    if (outside) {
      made.negated = true;
      into.outside_of.push_back(std::move(made));
    } else {
      into.ranges.insert(into.ranges.end(), made.ranges.begin(), made.ranges.end());
    }
  }

  static int HexDigit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  }

  uint32_t EscapedCharacter() {  // after the backslash
    const uint32_t c = Next();
    switch (c) {
      case 'a': return '\a';
      case 'f': return '\f';
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'v': return '\v';
      case 'x': return Hexadecimal();
      default: break;
    }
    const bool is_octal = c == '0' || (c >= '1' && c <= '7' && Peek() >= '0' && Peek() <= '7');
    if (is_octal) {
      uint32_t value = c - '0';
      for (int i = 0; i < 2 && Peek() >= '0' && Peek() <= '7'; ++i)
        value = value * 8 + static_cast<uint32_t>(text_[at_++] - '0');
      return value;
    }
    if (c >= 0x80 || IsWord(c)) Refuse("a character has a backslash that means nothing");
    return c;
  }

  uint32_t Hexadecimal() {
    const bool in_braces = Take("{");
    uint32_t value = 0;
    int digits = 0;
    for (; HexDigit(Peek()) >= 0 && (in_braces || digits < 2); ++digits) {
      value = value * 16 + static_cast<uint32_t>(HexDigit(text_[at_++]));
      if (value > kLastCodePoint) Refuse("a code point is too large");
    }
    if (in_braces ? digits == 0 || !Take("}") : digits != 2) Refuse("'\\x' has no number");
    return value;
  }

  bool NamedClass(CharacterClass& into) {  // [:alpha:]
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kNames{
        {{"alnum", "09AZaz"},
         {"alpha", "AZaz"},
         {"ascii", std::string_view("\0\x7f", 2)},
         {"blank", "\t\t  "},
         {"cntrl", std::string_view("\0\x1f\x7f\x7f", 4)},
         {"digit", "09"},
         {"graph", "!~"},
         {"lower", "az"},
         {"print", " ~"},
         {"punct", "!/:@[`{~"},
         {"space", "\t\r  "},
         {"upper", "AZ"},
         {"word", "09AZaz__"},
         {"xdigit", "09AFaf"}}};
    if (Peek() != '[' || Peek(1) != ':') return false;
    const size_t end = text_.find(":]", at_ + 2);
    if (end == std::string::npos) return false;
    std::string_view name = std::string_view(text_).substr(at_ + 2, end - at_ - 2);
    const bool outside = !name.empty() && name[0] == '^';
    if (outside) name.remove_prefix(1);
    for (const auto& [known, ends] : kNames) {
      if (known != name) continue;
      CharacterClass made;
      for (size_t i = 0; i < ends.size(); i += 2)
        made.Add(static_cast<unsigned char>(ends[i]), static_cast<unsigned char>(ends[i + 1]));
      at_ = end + 2;
      Merge(into, std::move(made), outside);
      return true;
    }
    Refuse(Cat("there is no class '[:", Printable(name), ":]'"));
  }

  uint32_t BracketCharacter() {
    if (Take("\\")) return EscapedCharacter();
    return Next();
  }

  Tree Brackets() {
    ++at_;
    Tree tree{.kind = Tree::Kind::kClass};
    CharacterClass& made = tree.characters;
    made.negated = Take("^");
    made.folds_case = flags_.folds_case;
    for (bool first = true; first || Peek() != ']'; first = false) {
      if (AtEnd()) Refuse("a ']' is missing");
      if (NamedClass(made) || (Peek() == '\\' && EscapedClass(made))) continue;
      const uint32_t low = BracketCharacter();
      uint32_t high = low;
      if (Peek() == '-' && Peek(1) != ']' && Peek(1) != '\0') {
        ++at_;
        high = BracketCharacter();
        if (high < low) Refuse("a range of characters is the wrong way round");
      }
      made.Add(low, high);
    }
    ++at_;
    return tree;
  }

  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
  Flags flags_;
};

struct State {
  enum class Kind : uint8_t { kClass, kPlace, kSplit, kMatch };
  Kind kind = Kind::kMatch;
  Place place{};
  int characters = -1;
  int next = -1, other = -1;
};

class SmallExpression : public RegularExpression {
 public:
  explicit SmallExpression(const std::string& pattern) {
    Tree tree = Parser(pattern).Parse();
    const int match = Add({.kind = State::Kind::kMatch});
    try {
      first_ = Emit(tree, match);
    } catch (Error& error) {
      error.At(Cat("'", Printable(pattern), "'"));
      throw;
    }
  }

  bool MatchesAll(std::string_view text) const override {
    size_t begin = 0, length = 0;
    return Follow(text, 0, true, begin, length) && length == text.size();
  }

  bool Find(std::string_view text, size_t from, size_t& begin, size_t& length) const override {
    while (from <= text.size()) {
      if (Follow(text, from, false, begin, length)) return true;
      if (from == text.size()) break;
      NextCodePoint(text, from);
    }
    return false;
  }

 private:
  int Add(State state) {
    if (states_.size() >= kMostStates) Fail(ErrorCode::kInvalidModel, "is too large for a regular expression");
    states_.push_back(state);
    return static_cast<int>(states_.size()) - 1;
  }

  // The first of the states for `tree`, after which `next` follows.
  int Emit(const Tree& tree, int next) {
    switch (tree.kind) {
      case Tree::Kind::kEmpty: return next;
      case Tree::Kind::kPlace: return Add({.kind = State::Kind::kPlace, .place = tree.place, .next = next});
      case Tree::Kind::kClass:
        classes_.push_back(tree.characters);
        return Add({.kind = State::Kind::kClass, .characters = static_cast<int>(classes_.size()) - 1, .next = next});
      case Tree::Kind::kSequence:
        for (size_t i = tree.parts.size(); i-- > 0;) next = Emit(tree.parts[i], next);
        return next;
      case Tree::Kind::kChoice: {
        int first = Emit(tree.parts.back(), next);
        for (size_t i = tree.parts.size() - 1; i-- > 0;)
          first = Add({.kind = State::Kind::kSplit, .next = Emit(tree.parts[i], next), .other = first});
        return first;
      }
      case Tree::Kind::kRepeat: return EmitRepeat(tree, next);
    }
    return next;
  }

  int EmitRepeat(const Tree& tree, int next) {
    const Tree& part = tree.parts[0];
    if (tree.most < 0) {
      const int loop = Add({.kind = State::Kind::kSplit, .other = next});
      const int body = Emit(part, loop);
      states_[static_cast<size_t>(loop)].next = body;
      next = loop;
    } else {
      const int after = next;
      for (int i = tree.least; i < tree.most; ++i)
        next = Add({.kind = State::Kind::kSplit, .next = Emit(part, next), .other = after});
    }
    for (int i = 0; i < tree.least; ++i) next = Emit(part, next);
    return next;
  }

  static bool Holds(Place place, uint32_t before, uint32_t after) {
    switch (place) {
      case Place::kTextBegin: return before == kNoCodePoint;
      case Place::kTextEnd: return after == kNoCodePoint;
      case Place::kLineBegin: return before == kNoCodePoint || before == '\n';
      case Place::kLineEnd: return after == kNoCodePoint || after == '\n';
      case Place::kWordEdge: return IsWord(before) != IsWord(after);
      case Place::kNoWordEdge: return IsWord(before) == IsWord(after);
    }
    return false;
  }

  struct Team {
    std::vector<int> members;
    std::vector<bool> seen;
    bool matches = false;
    explicit Team(size_t states) : seen(states) {}
    void Clear() {
      for (int member : members) seen[static_cast<size_t>(member)] = false;
      members.clear();
      matches = false;
    }
  };

  void Join(Team& team, int state, uint32_t before, uint32_t after, std::vector<int>& pending) const {
    pending.assign(1, state);
    while (!pending.empty()) {
      const int at = pending.back();
      pending.pop_back();
      if (team.seen[static_cast<size_t>(at)]) continue;
      team.seen[static_cast<size_t>(at)] = true;
      team.members.push_back(at);
      const State& here = states_[static_cast<size_t>(at)];
      if (here.kind == State::Kind::kMatch) team.matches = true;
      if (here.kind == State::Kind::kPlace && Holds(here.place, before, after)) pending.push_back(here.next);
      if (here.kind != State::Kind::kSplit) continue;
      pending.push_back(here.other);
      pending.push_back(here.next);
    }
  }

  static uint32_t CodePointBefore(std::string_view text, size_t place) {
    if (place == 0) return kNoCodePoint;
    size_t begin = place - 1;
    while (begin > 0 && place - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    return NextCodePoint(text, begin);
  }

  static uint32_t CodePointAt(std::string_view text, size_t place) {
    return place < text.size() ? NextCodePoint(text, place) : kNoCodePoint;
  }

  // The longest match that begins at `from`.
  bool Follow(std::string_view text, size_t from, bool to_end, size_t& begin, size_t& length) const {
    Team now(states_.size()), then(states_.size());
    std::vector<int> pending;
    Join(now, first_, CodePointBefore(text, from), CodePointAt(text, from), pending);
    bool found = false;
    size_t place = from;
    for (;;) {
      if (now.matches && (!to_end || place == text.size())) {
        found = true;
        begin = from;
        length = place - from;
      }
      if (place >= text.size() || now.members.empty()) return found;
      const uint32_t c = NextCodePoint(text, place);
      const uint32_t after = CodePointAt(text, place);
      then.Clear();
      for (int member : now.members) {
        const State& here = states_[static_cast<size_t>(member)];
        if (here.kind == State::Kind::kClass && classes_[static_cast<size_t>(here.characters)].Has(c))
          Join(then, here.next, c, after, pending);
      }
      std::swap(now, then);
    }
  }

  std::vector<State> states_;
  std::vector<CharacterClass> classes_;
  int first_ = 0;
};

}  // namespace

std::unique_ptr<const RegularExpression> CompileSmallExpression(const std::string& pattern) {
  return std::make_unique<SmallExpression>(pattern);
}

#ifdef __EMSCRIPTEN__
std::unique_ptr<const RegularExpression> CompileExpression(const std::string& pattern) {
  return CompileSmallExpression(pattern);
}
#endif

}  // namespace ferry

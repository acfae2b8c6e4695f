#include "torch/script/lexer.h"

#include <cerrno>
#include <cstdlib>

#include "base/error.h"

namespace ferry::torch::script {
namespace {

using Kind = Token::Kind;

constexpr size_t kDeepestIndentation = 200;
constexpr size_t kLongestText = size_t{1} << 28;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {
    if (text.size() > kLongestText) Fail(ErrorCode::kLimit, "the code is ", text.size(), " bytes long");
  }

  std::vector<Token> Run() {
    while (at_ < text_.size()) {
      if (line_begins_ && open_ == 0)
        BeginLine();
      else
        Step();
    }
    if (open_ > 0) Wrong("a bracket is not closed");
    EndLine();
    for (; indents_.size() > 1; indents_.pop_back()) Add(Kind::kDedent);
    Add(Kind::kEnd);
    return std::move(tokens_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void Wrong(const Parts&... parts) const {
    Fail(ErrorCode::kInvalidModel, "line ", line_, ": ", parts...);
  }

  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  Token& Add(Kind kind) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.line = line_;
    return token;
  }
  void EndLine() {
    if (!tokens_.empty() && tokens_.back().kind != Kind::kNewline && tokens_.back().kind != Kind::kIndent &&
        tokens_.back().kind != Kind::kDedent)
      Add(Kind::kNewline);
  }
  void SkipComment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  // The spaces before a line's first word; lines without words do not count.
  void BeginLine() {
    size_t width = 0;
    for (; Peek() == ' ' || Peek() == '\t'; ++at_) width += Peek() == '\t' ? 8 : 1;
    if (Peek() == '#') SkipComment();
    if (Peek() == '\n' || Peek() == '\r') {
      line_ += Peek() == '\n';
      ++at_;
      return;
    }
    if (at_ >= text_.size()) return;
    line_begins_ = false;
    if (width > indents_.back()) {
      if (indents_.size() >= kDeepestIndentation) Fail(ErrorCode::kLimit, "line ", line_, ": blocks nest too deep");
      indents_.push_back(width);
      Add(Kind::kIndent);
    }
    for (; width < indents_.back(); indents_.pop_back()) Add(Kind::kDedent);
    if (width != indents_.back()) Wrong("the indentation fits no block");
  }

  void Step() {
    char c = Peek();
    if (c == '\n') {
      ++at_;
      if (open_ == 0) {
        EndLine();
        line_begins_ = true;
      }
      ++line_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      SkipComment();
    } else if (c == '\\' && Peek(1) == '\n') {
      at_ += 2;
      ++line_;
    } else if (IsNameStart(c)) {
      TakeName();
    } else if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) {
      TakeNumber();
    } else if (c == '"' || c == '\'') {
      TakeString(c);
    } else {
      TakeSymbol();
    }
  }

  void TakeName() {
    size_t begin = at_;
    while (IsNamePart(Peek())) ++at_;
    Add(Kind::kName).text = text_.substr(begin, at_ - begin);
  }

  void TakeNumber() {
    size_t begin = at_;
    bool is_float = false;
    while (IsDigit(Peek())) ++at_;
    if (Peek() == '.') {
      is_float = true;
      ++at_;
      while (IsDigit(Peek())) ++at_;
    }
    size_t exponent = Peek() == 'e' || Peek() == 'E' ? (Peek(1) == '-' || Peek(1) == '+' ? 2u : 1u) : 0u;
    if (exponent > 0 && IsDigit(Peek(exponent))) {
      is_float = true;
      at_ += exponent;
      while (IsDigit(Peek())) ++at_;
    }
    std::string digits(text_.substr(begin, at_ - begin));
    Token& token = Add(is_float ? Kind::kFloat : Kind::kInteger);
    token.number = std::strtod(digits.c_str(), nullptr);
    if (Peek() == 'j') {
      ++at_;
      token.kind = Kind::kImaginary;
    } else if (!is_float) {
      errno = 0;
      unsigned long long value = std::strtoull(digits.c_str(), nullptr, 10);
      // The smallest integer is written as minus a number that is one too large.
      if (errno != 0 || value > uint64_t{1} << 63) Wrong("the number ", Printable(digits), " needs more than 64 bits");
      token.integer = static_cast<int64_t>(value);
    }
    if (IsNamePart(Peek())) Wrong("a number runs into a name");
  }

  void TakeString(char quote) {
    Token& token = Add(Kind::kString);
    bool tripled = Peek(1) == quote && Peek(2) == quote;
    at_ += tripled ? 3 : 1;
    for (;;) {
      if (at_ >= text_.size()) Wrong("a string is not closed");
      char c = text_[at_];
      if (c == quote && (!tripled || (Peek(1) == quote && Peek(2) == quote))) break;
      if (c == '\n' && !tripled) Wrong("a string is not closed");
      line_ += c == '\n';
      ++at_;
      if (c == '\\')
        TakeEscape(token.text);
      else
        token.text.push_back(c);
    }
    at_ += tripled ? 3 : 1;
  }

  void TakeEscape(std::string& out) {
    if (at_ >= text_.size()) Wrong("a string is not closed");
    char c = text_[at_++];
    static constexpr struct {
      char letter, meaning;
    } kEscapes[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'\\', '\\'}, {'\'', '\''},
                    {'"', '"'},  {'a', '\a'}, {'b', '\b'}, {'f', '\f'},  {'v', '\v'}};
    for (const auto& escape : kEscapes)
      if (c == escape.letter) return out.push_back(escape.meaning);
    if (c == '\n') {
      ++line_;
      return;
    }
    if (c == 'x') return out.push_back(static_cast<char>(TakeDigits(2, 16)));
    if (c >= '0' && c <= '7') {
      --at_;
      return out.push_back(static_cast<char>(TakeDigits(3, 8)));
    }
    out.push_back('\\');
    out.push_back(c);
  }

  int TakeDigits(int count, int base) {
    int value = 0;
    for (int i = 0; i < count; ++i) {
      char c = Peek();
      int digit = IsDigit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
      if (digit >= base) {
        if (i == 0 || base == 16) Wrong("an escape in a string is not complete");
        break;
      }
      value = value * base + digit;
      ++at_;
    }
    return value;
  }

  void TakeSymbol() {
    static constexpr std::string_view kSymbols[] = {"**=", "//=", "->", "==", "!=", "<=", ">=", "<<", ">>", "//",
                                                    "**",  "+=",  "-=", "*=", "/=", "%=", "(",  ")",  "[",  "]",
                                                    "{",   "}",   ",",  ":",  ".",  "=",  "+",  "-",  "*",  "/",
                                                    "%",   "<",   ">",  "&",  "|",  "^",  "~",  "@",  ";"};
    for (std::string_view symbol : kSymbols) {
      if (text_.substr(at_, symbol.size()) != symbol) continue;
      if (symbol == "(" || symbol == "[" || symbol == "{") ++open_;
      if (symbol == ")" || symbol == "]" || symbol == "}") {
        if (open_ == 0) Wrong("a bracket closes that was not opened");
        --open_;
      }
      Add(Kind::kSymbol).text = symbol;
      at_ += symbol.size();
      return;
    }
    Wrong("the character ", static_cast<int>(static_cast<unsigned char>(Peek())), " has no meaning in TorchScript");
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  int open_ = 0;  // brackets
  bool line_begins_ = true;
  std::vector<size_t> indents_ = {0};
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view text) { return Lexer(text).Run(); }

}  // namespace ferry::torch::script

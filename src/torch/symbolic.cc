#include "torch/symbolic.h"

#include <vector>

#include "base/error.h"

namespace ferry::torch {
namespace {

constexpr int kDeepest = 100;
constexpr size_t kLongest = 10'000;

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// An expression in plain notation, and how tightly its outermost operator binds.
struct Plain {
  enum Strength { kSum, kProduct, kPower, kAtom };
  std::string text;
  Strength strength = kAtom;

  std::string Inside(Strength outer) const { return strength < outer ? Cat("(", text, ")") : text; }
};

// Reads sympy's srepr form: NAME(argument, …) with strings, numbers and name=value among the arguments.
class ReprParser {
 public:
  explicit ReprParser(std::string_view text) : text_(text) {}

  Plain Parse() {
    Plain value = ParseExpression(0);
    SkipSpace();
    if (at_ != text_.size()) Wrong();
    return value;
  }

 private:
  [[noreturn]] void Wrong() const {
    Fail(ErrorCode::kInvalidModel, "the symbolic size '", Printable(text_, 80), "' cannot be read at byte ", at_);
  }
  void SkipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Take(char wanted) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  std::string ParseWord() {
    SkipSpace();
    size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    while (at_ < text_.size() && IsWordByte(text_[at_])) ++at_;
    if (at_ == begin) Wrong();
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string ParseQuoted() {
    char quote = text_[at_];
    size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) Wrong();
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  Plain ParseExpression(int depth) {
    if (depth > kDeepest) Fail(ErrorCode::kLimit, "a symbolic size nests more than ", kDeepest, " deep");
    SkipSpace();
    if (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"')) return {ParseQuoted()};
    std::string name = ParseWord();
    if (!Take('(')) return {name};
    std::vector<Plain> arguments;
    while (!Take(')')) {
      Plain argument = ParseExpression(depth + 1);
      if (Take('='))
        ParseExpression(depth + 1);  // an assumption about a symbol: positive=True
      else
        arguments.push_back(std::move(argument));
      if (!Take(',')) {
        if (!Take(')')) Wrong();
        break;
      }
    }
    return Apply(name, arguments);
  }

  Plain Apply(const std::string& name, const std::vector<Plain>& arguments) const {
    if ((name == "Symbol" || name == "Integer" || name == "Float") && !arguments.empty()) return arguments[0];
    if (name == "Rational" && arguments.size() == 2)
      return {Cat(arguments[0].text, "/", arguments[1].text), Plain::kProduct};
    if (name == "Mul" && !arguments.empty()) return Infix(arguments, "*", Plain::kProduct);
    if (name == "Add" && !arguments.empty()) return Infix(arguments, " + ", Plain::kSum);
    if (name == "Pow" && arguments.size() == 2)
      return {Cat(arguments[0].Inside(Plain::kAtom), "**", arguments[1].Inside(Plain::kAtom)), Plain::kPower};
    if (name == "FloorDiv" && arguments.size() == 2)
      return {Cat(arguments[0].Inside(Plain::kAtom), "//", arguments[1].Inside(Plain::kAtom)), Plain::kProduct};
    std::vector<std::string> parts;
    for (const Plain& argument : arguments) parts.push_back(argument.text);
    return {Cat(name, "(", Join(parts, ", "), ")")};
  }

  static Plain Infix(const std::vector<Plain>& arguments, std::string_view separator, Plain::Strength strength) {
    std::vector<std::string> parts;
    for (const Plain& argument : arguments) parts.push_back(argument.Inside(strength));
    return {Join(parts, separator), strength};
  }

  std::string_view text_;
  size_t at_ = 0;
};

bool IsInteger(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.empty() || text.size() > 18) return false;
  for (char c : text)
    if (c < '0' || c > '9') return false;
  return true;
}

}  // namespace

Dim ParseDimExpression(std::string_view text) {
  if (text.empty() || text.size() > kLongest) Fail(ErrorCode::kLimit, "a symbolic size has ", text.size(), " bytes");
  bool is_repr = text.find("Symbol(") != std::string_view::npos || text.starts_with("Integer(");
  std::string plain = is_repr ? ReprParser(text).Parse().text : std::string(text);
  if (IsInteger(plain)) return Dim(std::stoll(plain));
  return Dim::Named(std::move(plain));
}

}  // namespace ferry::torch

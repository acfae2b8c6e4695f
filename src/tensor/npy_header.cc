#include "tensor/npy_header.h"

#include "base/error.h"

namespace ferry {
namespace {

constexpr size_t kMostDimensions = 64;

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  NpyHeader Parse() {
    Expect('{');
    while (!Take('}')) {
      std::string key = ParseText();
      Expect(':');
      if (key == "descr" && Once(kDescr))
        ParseDescr();
      else if (key == "fortran_order" && Once(kOrder))
        header_.fortran_order = ParseBool();
      else if (key == "shape" && Once(kShape))
        ParseShape();
      else
        Wrong(Cat("the key '", Printable(key), "' is unknown or stands twice"));
      if (!Take(',')) {
        Expect('}');
        break;
      }
    }
    SkipSpace();
    if (at_ != text_.size()) Wrong("text follows the dictionary");
    if (seen_ != (kDescr | kOrder | kShape)) Wrong("one of descr, fortran_order and shape is missing");
    return std::move(header_);
  }

 private:
  enum : unsigned { kDescr = 1, kOrder = 2, kShape = 4 };

  [[noreturn]] void Wrong(std::string_view what) const {
    Fail(ErrorCode::kInvalidModel, "the .npy header is not one numpy writes: byte ", at_, ": ", what);
  }
  bool Once(unsigned key) {
    bool first = !(seen_ & key);
    seen_ |= key;
    return first;
  }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool Take(char wanted) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void Expect(char wanted) {
    if (!Take(wanted)) Wrong(Cat("expected '", wanted, "'"));
  }

  std::string ParseText() {
    SkipSpace();
    char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') Wrong("expected a string");
    size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) Wrong("a string does not end");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    if (value.find('\\') != std::string::npos) Wrong("a string has an escape");
    at_ = end + 1;
    return value;
  }

  bool ParseBool() {
    SkipSpace();
    for (bool value : {true, false}) {
      std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    Wrong("expected True or False");
  }

  int64_t ParseInt() {
    SkipSpace();
    int64_t value = 0;
    size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value))
        Wrong("a dimension does not fit in 64 bits");
    if (at_ == begin) Wrong("expected a number");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return value;
  }

  void ParseShape() {
    Expect('(');
    while (!Take(')')) {
      if (header_.shape.size() == kMostDimensions) Wrong("more than 64 dimensions");
      header_.shape.push_back(ParseInt());
      if (!Take(',')) {
        Expect(')');
        break;
      }
    }
  }

  // 'TYPE', or [('NAME', 'TYPE')].
  void ParseDescr() {
    if (!Take('[')) {
      header_.descr = ParseText();
      return;
    }
    Expect('(');
    header_.field = ParseText();
    Expect(',');
    SkipSpace();
    bool plain = at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"');
    if (plain) header_.descr = ParseText();
    if (!plain || !Take(')') || !Take(']'))
      Fail(ErrorCode::kUnsupported, "the .npy file holds records of several fields; save one array per field");
  }

  std::string_view text_;
  size_t at_ = 0;
  unsigned seen_ = 0;
  NpyHeader header_;
};

}  // namespace

NpyHeader ParseNpyHeader(std::string_view text) { return HeaderParser(text).Parse(); }

std::string FormatNpyHeader(const NpyHeader& header) {
  std::string descr =
      header.field.empty() ? Cat("'", header.descr, "'") : Cat("[('", header.field, "', '", header.descr, "')]");
  std::string text = Cat("{'descr': ", descr, ", 'fortran_order': ", header.fortran_order ? "True" : "False",
                         ", 'shape': (", Join(header.shape, ", "), header.shape.size() == 1 ? "," : "", "), }");
  constexpr size_t kPrefix = 10, kAlignment = 64;
  size_t total = (kPrefix + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  Require(total - kPrefix <= 0xFFFF, "a tensor of ", header.shape.size(), " dimensions cannot be saved as .npy");
  text.append(total - kPrefix - text.size() - 1, ' ');
  text.push_back('\n');
  std::string out = "\x93NUMPY";
  out.push_back('\x01');
  out.push_back('\0');
  out.push_back(static_cast<char>(text.size() & 0xFF));
  out.push_back(static_cast<char>(text.size() >> 8));
  return out + text;
}

}  // namespace ferry

#include "base/json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"

template class std::vector<ferry::Json>;

namespace ferry {

Json::Json() = default;
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;
Json::Json(std::string_view text) : held_(std::string(text)) {}
Json::Json(std::string text) : held_(std::move(text)) {}
Json::Json(const char* text) : held_(std::string(text)) {}
Json::Json(Array elements) : held_(std::move(elements)) {}
Json::Json(Object members) : held_(std::move(members)) {}

void Json::Hold(bool value) { held_ = value; }
void Json::Hold(int64_t value) { held_ = value; }
void Json::Hold(uint64_t value) { held_ = value; }
void Json::Hold(double value) { held_ = value; }
namespace {

// A parser of our own: the graphs of older PyTorch archives hold Python's bare NaN and Infinity, which the libraries at
// hand refuse, and every command needs the writer anyway.
class Parser {
 public:
  Parser(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  Json ParseDocument() {
    if (text_.size() > limits_.bytes)
      Fail(ErrorCode::kLimit, "JSON of ", text_.size(), " bytes is larger than the limit of ", limits_.bytes);
    Json value = ParseValue(0);
    SkipSpace();
    if (at_ != text_.size()) Wrong("text follows the end of the value");
    return value;
  }

 private:
  [[noreturn]] void Wrong(std::string_view what, ErrorCode code = ErrorCode::kInvalidModel) const {
    size_t line = 1;
    for (char c : text_.substr(0, at_)) line += c == '\n';
    Fail(code, "JSON line ", line, ", byte ", at_, ": ", what);
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }

  char Peek() const {
    if (at_ >= text_.size()) Wrong("the text ends in the middle of a value");
    return text_[at_];
  }

  bool Take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  bool TakeWord(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json ParseValue(int depth) {
    SkipSpace();
    if (++values_ > limits_.values) Wrong(Cat("more than ", limits_.values, " values"), ErrorCode::kLimit);
    switch (Peek()) {
      case '{': return ParseObject(depth + 1);
      case '[': return ParseArray(depth + 1);
      case '"': return Json(ParseString());
      case 't':
        if (TakeWord("true")) return Json(true);
        break;
      case 'f':
        if (TakeWord("false")) return Json(false);
        break;
      case 'n':
        if (TakeWord("null")) return Json();
        break;
      case 'N':
        if (TakeWord("NaN")) return Json(std::numeric_limits<double>::quiet_NaN());
        break;
      case 'I':
        if (TakeWord("Infinity")) return Json(std::numeric_limits<double>::infinity());
        break;
      default: return ParseNumber();
    }
    Wrong("expected a value");
  }

  void CheckDepth(int depth) const {
    if (depth > limits_.depth) Wrong(Cat("nested deeper than ", limits_.depth, " levels"), ErrorCode::kLimit);
  }

  Json ParseArray(int depth) {
    CheckDepth(depth);
    ++at_;
    Json::Array elements;
    SkipSpace();
    if (Take(']')) return Json(std::move(elements));
    for (;;) {
      elements.push_back(ParseValue(depth));
      SkipSpace();
      if (Take(']')) return Json(std::move(elements));
      if (!Take(',')) Wrong("expected ',' or ']' in an array");
    }
  }

  Json ParseObject(int depth) {
    CheckDepth(depth);
    ++at_;
    Json::Object members;
    SkipSpace();
    if (Take('}')) return Json(std::move(members));
    for (;;) {
      SkipSpace();
      if (Peek() != '"') Wrong("expected a key in quotes");
      std::string key = ParseString();
      SkipSpace();
      if (!Take(':')) Wrong("expected ':' after a key");
      members.emplace_back(std::move(key), ParseValue(depth));
      SkipSpace();
      if (Take('}')) return Json(std::move(members));
      if (!Take(',')) Wrong("expected ',' or '}' in an object");
    }
  }

  std::string ParseString() {
    ++at_;
    std::string out;
    for (;;) {
      size_t begin = at_;
      while (at_ < text_.size() && IsPlain(text_[at_])) ++at_;
      out.append(text_.substr(begin, at_ - begin));
      char c = Peek();
      if (c == '"') break;
      if (c == '\\') {
        ParseEscape(out);
      } else if (static_cast<uint8_t>(c) < 0x20) {
        Wrong("a control byte stands unescaped in a string");
      } else {
        begin = at_;
        if (NextCodePoint(text_, at_) == kInvalidCodePoint) Wrong("a string is not UTF-8");
        out.append(text_.substr(begin, at_ - begin));
      }
    }
    ++at_;
    return out;
  }

  static bool IsPlain(char c) { return c >= 0x20 && c != '"' && c != '\\' && static_cast<uint8_t>(c) < 0x80; }

  void ParseEscape(std::string& out) {
    ++at_;
    char c = Peek();
    ++at_;
    switch (c) {
      case '"':
      case '\\':
      case '/': out.push_back(c); return;
      case 'b': out.push_back('\b'); return;
      case 'f': out.push_back('\f'); return;
      case 'n': out.push_back('\n'); return;
      case 'r': out.push_back('\r'); return;
      case 't': out.push_back('\t'); return;
      case 'u': break;
      default: Wrong("unknown escape in a string");
    }
    uint32_t unit = ParseHex4();
    if (unit >= 0xD800 && unit < 0xDC00) {
      uint32_t low = TakeWord("\\u") ? ParseHex4() : 0;
      if (low < 0xDC00 || low > 0xDFFF) Wrong("half of a surrogate pair in a string");
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    } else if (unit >= 0xDC00 && unit < 0xE000) {
      Wrong("half of a surrogate pair in a string");
    }
    AppendCodePoint(out, unit);
  }

  uint32_t ParseHex4() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      char c = Peek();
      uint32_t digit;
      if (c >= '0' && c <= '9')
        digit = static_cast<uint32_t>(c - '0');
      else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        digit = static_cast<uint32_t>((c | 0x20) - 'a' + 10);
      else
        Wrong("expected four hexadecimal digits");
      value = value << 4 | digit;
    }
    return value;
  }

  size_t TakeDigits() {
    size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ - begin;
  }

  Json ParseNumber() {
    size_t begin = at_;
    bool negative = Take('-');
    if (negative && TakeWord("Infinity")) return Json(-std::numeric_limits<double>::infinity());
    bool leading_zero = at_ < text_.size() && text_[at_] == '0';
    size_t digits = TakeDigits();
    if (digits == 0) Wrong("expected a value");
    if (leading_zero && digits > 1) Wrong("a number begins with 0");
    bool integral = true;
    if (Take('.')) {
      integral = false;
      if (TakeDigits() == 0) Wrong("expected digits after the decimal point");
    }
    if (Take('e') || Take('E')) {
      integral = false;
      if (!Take('+')) Take('-');
      if (TakeDigits() == 0) Wrong("expected digits in the exponent");
    }
    std::string_view number = text_.substr(begin, at_ - begin);
    if (integral)
      if (Json value = ParseInteger(number, negative); !value.is_null()) return value;
    return Json(ParseDouble(std::string(number)));
  }

  // Null when it does not fit in 64 bits: such a number is read as a double, as JavaScript would.
  static Json ParseInteger(std::string_view digits, bool negative) {
    uint64_t magnitude = 0;
    for (char c : digits.substr(negative))
      if (__builtin_mul_overflow(magnitude, uint64_t{10}, &magnitude) ||
          __builtin_add_overflow(magnitude, static_cast<uint64_t>(c - '0'), &magnitude))
        return {};
    constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
    if (!negative) return magnitude <= kLargest ? Json(static_cast<int64_t>(magnitude)) : Json(magnitude);
    if (magnitude > kLargest + 1) return {};
    return Json(static_cast<int64_t>(0 - magnitude));
  }

  static double ParseDouble(std::string number) {
    char* end = nullptr;
    double value = std::strtod(number.c_str(), &end);
    if (size_t point = number.find('.'); *end != '\0' && point != std::string::npos) {
      number[point] = ',';  // the program around us may have set a locale with a decimal comma
      value = std::strtod(number.c_str(), &end);
    }
    return value;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  size_t at_ = 0;
  size_t values_ = 0;
};

void DumpString(std::string& out, std::string_view text) {
  out.push_back('"');
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    uint32_t c = NextCodePoint(text, at);
    if (c == kInvalidCodePoint) {
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7F) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out.append(text.substr(begin, at - begin));
    }
  }
  out.push_back('"');
}

// The shortest decimal that reads back as the same double.
void DumpDouble(std::string& out, double value) {
  if (std::isnan(value)) return void(out += "\"NaN\"");
  if (std::isinf(value)) return void(out += value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
  char digits[40];
  for (int precision : {6, 9, 15, 16, 17}) {
    std::snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (std::strtod(digits, nullptr) == value) break;
  }
  for (char& c : digits)
    if (c == ',') c = '.';
  out += digits;
  if (!std::strpbrk(digits, ".e")) out += ".0";
}

void NewLine(std::string& out, int indent, int depth) {
  if (indent < 0) return;
  out.push_back('\n');
  out.append(static_cast<size_t>(indent) * static_cast<size_t>(depth), ' ');
}

}  // namespace

Json Json::Parse(std::string_view text, const JsonLimits& limits) { return Parser(text, limits).ParseDocument(); }

const char* Json::KindName() const {
  static constexpr const char* kNames[] = {"null",     "a boolean", "an integer", "an integer",
                                           "a number", "a string",  "an array",   "an object"};
  return kNames[held_.index()];
}

namespace {
[[noreturn]] void WrongKind(const char* wanted, const Json& json) {
  Fail(ErrorCode::kInvalidModel, "expected ", wanted, " in JSON, found ", json.KindName());
}
}  // namespace

bool Json::AsBool() const {
  if (const bool* value = std::get_if<bool>(&held_)) return *value;
  WrongKind("a boolean", *this);
}
int64_t Json::AsInt() const {
  if (const int64_t* value = std::get_if<int64_t>(&held_)) return *value;
  if (const uint64_t* value = std::get_if<uint64_t>(&held_); value && *value <= INT64_MAX)
    return static_cast<int64_t>(*value);
  WrongKind("a 64-bit integer", *this);
}
uint64_t Json::AsUnsigned() const {
  if (const uint64_t* value = std::get_if<uint64_t>(&held_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&held_); value && *value >= 0) return static_cast<uint64_t>(*value);
  WrongKind("an unsigned integer", *this);
}
double Json::AsDouble() const {
  if (const double* value = std::get_if<double>(&held_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&held_)) return static_cast<double>(*value);
  if (const uint64_t* value = std::get_if<uint64_t>(&held_)) return static_cast<double>(*value);
  if (const std::string* text = std::get_if<std::string>(&held_)) {
    if (*text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (*text == "Infinity") return std::numeric_limits<double>::infinity();
    if (*text == "-Infinity") return -std::numeric_limits<double>::infinity();
  }
  WrongKind("a number", *this);
}
const std::string& Json::AsString() const {
  if (const std::string* value = std::get_if<std::string>(&held_)) return *value;
  WrongKind("a string", *this);
}
const Json::Array& Json::AsArray() const {
  if (const Array* value = std::get_if<Array>(&held_)) return *value;
  WrongKind("an array", *this);
}
const Json::Object& Json::AsObject() const {
  if (const Object* value = std::get_if<Object>(&held_)) return *value;
  WrongKind("an object", *this);
}

const Json* Json::Find(std::string_view key) const {
  const Object& members = AsObject();
  for (auto it = members.rbegin(); it != members.rend(); ++it)
    if (it->first == key) return &it->second;
  return nullptr;
}
const Json& Json::At(std::string_view key) const {
  if (const Json* value = Find(key)) return *value;
  Fail(ErrorCode::kInvalidModel, "a JSON object lacks the key '", Printable(key), "'");
}

Json& Json::Set(std::string_view key, Json value) {
  if (is_null()) held_ = Object();
  auto* members = std::get_if<Object>(&held_);
  Require(members, "cannot set a member of ", KindName());
  members->emplace_back(std::string(key), std::move(value));
  return *this;
}
Json& Json::Add(Json value) {
  if (is_null()) held_ = Array();
  auto* elements = std::get_if<Array>(&held_);
  Require(elements, "cannot add an element to ", KindName());
  elements->push_back(std::move(value));
  return *this;
}

std::string Json::Dump(int indent) const {
  std::string out;
  DumpTo(out, indent, 0);
  return out;
}

void Json::DumpTo(std::string& out, int indent, int depth) const {
  auto dump_all = [&](const auto& parts, int inner_indent, const auto& dump_part) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) out += inner_indent < 0 ? ", " : ",";
      NewLine(out, inner_indent, depth + 1);
      dump_part(parts[i]);
    }
    if (!parts.empty()) NewLine(out, inner_indent, depth);
  };
  if (const auto* elements = std::get_if<Array>(&held_)) {
    // Lists of plain values (shapes, axes) stay on one line.
    bool nested = false;
    for (const Json& element : *elements) nested = nested || element.is_array() || element.is_object();
    out.push_back('[');
    dump_all(*elements, nested ? indent : -1, [&](const Json& e) { e.DumpTo(out, indent, depth + 1); });
    out.push_back(']');
  } else if (const auto* members = std::get_if<Object>(&held_)) {
    out.push_back('{');
    dump_all(*members, indent, [&](const Member& member) {
      DumpString(out, member.first);
      out += ": ";
      member.second.DumpTo(out, indent, depth + 1);
    });
    out.push_back('}');
  } else if (const std::string* text = std::get_if<std::string>(&held_)) {
    DumpString(out, *text);
  } else if (const double* number = std::get_if<double>(&held_)) {
    DumpDouble(out, *number);
  } else if (const int64_t* integer = std::get_if<int64_t>(&held_)) {
    AppendInteger(out, *integer);
  } else if (const uint64_t* natural = std::get_if<uint64_t>(&held_)) {
    AppendUnsigned(out, *natural);
  } else if (const bool* truth = std::get_if<bool>(&held_)) {
    AppendTo(out, *truth);
  } else {
    out += "null";
  }
}

}  // namespace ferry

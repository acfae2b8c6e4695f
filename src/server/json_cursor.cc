#include "server/json_cursor.h"

#include "base/utf8.h"
#include "server/refusal.h"

namespace ferry::server {

void JsonCursor::Fail(std::string_view why) const {
  Refuse(Code::kInvalidArgument, "failed to parse the request JSON buffer: ", why, " at ", at_);
}

char JsonCursor::Peek() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
    ++at_;
  }
  return 0;
}

bool JsonCursor::Take(char c) {
  if (Peek() != c || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

void JsonCursor::Expect(char c) {
  if (!Take(c)) Fail(Cat("'", c, "' is missing"));
}

void JsonCursor::ExpectEnd() {
  if (Peek() != 0 || at_ < text_.size()) Fail("there is more after the value");
}

bool JsonCursor::Begin(char open) {
  Expect(open);
  return !Take(open == '{' ? '}' : ']');
}

bool JsonCursor::Next(char close) {
  if (Take(',')) return true;
  if (!Take(close)) Fail(Cat("Missing a comma or ", close, " after an element"));
  return false;
}

std::string_view JsonCursor::ReadKey() {
  if (Peek() != '"') Fail("a string is missing");
  const size_t begin = at_;
  SkipString();
  std::string_view key = text_.substr(begin + 1, at_ - begin - 2);
  if (key.find('\\') != std::string_view::npos) {
    at_ = begin;
    key_ = ReadString();
    key = key_;
  }
  Expect(':');
  return key;
}

void JsonCursor::SkipString() {
  ++at_;
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') return;
    if (c == '\\') ++at_;
  }
  Fail("a string does not end");
}

namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Four digits at text[at]; -1: there are none.
int32_t HexUnit(std::string_view text, size_t at) {
  if (at + 4 > text.size()) return -1;
  int32_t unit = 0;
  for (size_t i = 0; i < 4; ++i) {
    const int digit = HexDigit(text[at + i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

}  // namespace

std::string JsonCursor::ReadString() {
  if (Peek() != '"') Fail("a string is missing");
  const size_t begin = at_ + 1;
  SkipString();
  std::string_view raw = text_.substr(begin, at_ - begin - 1);
  if (raw.find('\\') == std::string_view::npos) return std::string(raw);
  std::string out;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
      continue;
    }
    switch (raw[++i]) {
      case '"': out += '"'; break;
      case '\\': out += '\\'; break;
      case '/': out += '/'; break;
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'u': {
        int32_t unit = HexUnit(raw, i + 1);
        if (unit < 0) Fail("a \\u of a string lacks its four digits");
        i += 4;
        if (unit >= 0xD800 && unit < 0xDC00 && raw.substr(i + 1, 2) == "\\u") {
          const int32_t low = HexUnit(raw, i + 3);
          if (low >= 0xDC00 && low < 0xE000) {
            unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            i += 6;
          }
        }
        if (unit >= 0xD800 && unit < 0xE000) Fail("a string has half of a surrogate pair");
        AppendCodePoint(out, static_cast<uint32_t>(unit));
        break;
      }
      default: Fail("a string has an unknown escape");
    }
  }
  return out;
}

std::string_view JsonCursor::SkipValue() {
  Peek();
  const size_t begin = at_;
  std::string open;  // what is not yet closed
  do {
    const char c = Peek();
    if (c == '"') {
      SkipString();
    } else if (c == '{' || c == '[') {
      if (open.size() >= kMostDepth) Fail(Cat("JSON nesting depth exceeds maximum allowed limit of ", kMostDepth));
      open += c;
      ++at_;
      continue;
    } else if (c == '}' || c == ']') {
      if (open.empty() || (c == '}') != (open.back() == '{')) Fail("a bracket closes nothing");
      open.pop_back();
      ++at_;
    } else if (c == ',' || c == ':') {
      if (open.empty()) Fail("a value is missing");
      ++at_;
    } else if (c == 0) {
      Fail("a value is missing");
    } else {
      const size_t end = text_.find_first_of(",]} \n\r\t:", at_);
      at_ = end == std::string_view::npos ? text_.size() : end;
    }
  } while (!open.empty());
  return text_.substr(begin, at_ - begin);
}

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  size_t plain = 0, at = 0;
  auto flush = [&] { out.append(text, plain, at - plain); };
  while (at < text.size()) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++at;
      continue;
    }
    flush();
    if (c < 0x80) {
      ++at;
      static constexpr char kHex[] = "0123456789abcdef";
      if (c == '"' || c == '\\')
        (out += '\\') += static_cast<char>(c);
      else if (c == '\n')
        out += "\\n";
      else if (c == '\t')
        out += "\\t";
      else if (c == '\r')
        out += "\\r";
      else
        ((out += "\\u00") += kHex[c >> 4]) += kHex[c & 15];
    } else {
      const uint32_t point = NextCodePoint(text, at);
      AppendCodePoint(out, point == kInvalidCodePoint ? 0xFFFD : point);
    }
    plain = at;
  }
  flush();
  out += '"';
}

}  // namespace ferry::server

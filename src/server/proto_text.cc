#include "server/proto_text.h"

#include <charconv>
#include <cstdlib>
#include <limits>

#include "base/utf8.h"
#include "server/refusal.h"

namespace ferry::server {
namespace {

constexpr int kMostDepth = 64;
constexpr size_t kMostBytes = size_t{4} << 20;

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '+' || c == '-';
}

class TextParser {
 public:
  TextParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Json Parse(const ProtoMessage& message) {
    if (text_.size() > kMostBytes) FailHere("the text is larger than 4 MiB");
    Json out = ParseFields(message, 0, 0);
    return out;
  }

 private:
  template <class... Parts>
  [[noreturn]] void FailHere(const Parts&... parts) const {
    Refuse(Code::kInvalidArgument, name_, ":", line_, ": ", parts...);
  }

  char Peek() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        line_ += c == '\n';
        ++at_;
      } else {
        return c;
      }
    }
    return 0;
  }
  bool Take(char c) {
    if (at_ >= text_.size() || Peek() != c) return false;
    ++at_;
    return true;
  }
  std::string_view Word(const char* what) {
    Peek();
    size_t end = at_;
    while (end < text_.size() && IsWordByte(text_[end])) ++end;
    if (end == at_)
      FailHere(what, " is missing", at_ < text_.size() ? Cat(" before '", Printable(text_.substr(at_, 1)), "'") : "");
    std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    return word;
  }

  static void Append(Json& out, const ProtoField& field, Json value,
                     std::vector<std::pair<const ProtoField*, Json>>& lists) {
    if (!field.repeated) {
      out.Set(field.name, std::move(value));
      return;
    }
    Json* list = nullptr;
    for (auto& [known, made] : lists)
      if (known == &field) list = &made;
    if (!list) list = &lists.emplace_back(&field, field.is_map() ? Json(Json::Object{}) : Json(Json::Array{})).second;
    if (!field.is_map()) {
      list->Add(std::move(value));
      return;
    }
    const Json* key = value.Find("key");
    const Json* held = value.Find("value");
    const bool is_message = field.message->fields[1].kind == FieldKind::kMessage;
    list->Set(!key               ? ""
              : key->is_string() ? key->AsString()
                                 : key->Dump(-1),
              held         ? *held
              : is_message ? Json(Json::Object{})
                           : Json(""));
  }

  Json ParseFields(const ProtoMessage& message, char close, int depth) {
    if (depth > kMostDepth) FailHere("messages are nested too deeply");
    Json out = Json::Object{};
    std::vector<std::pair<const ProtoField*, Json>> lists;
    while (true) {
      const char c = Peek();
      if (close && c == close) {
        ++at_;
        break;
      }
      if (at_ >= text_.size()) {
        if (close) FailHere("'", close, "' is missing at the end");
        break;
      }
      const std::string_view name = Word("a field's name");
      const ProtoField* field = message.Find(name);
      if (!field) FailUnknown(message, name);
      CheckOnce(message, *field, out);
      ParseValues(*field, out, lists, depth);
      if (!Take(',')) Take(';');
    }
    for (auto& [field, list] : lists) out.Set(field->name, std::move(list));
    return out;
  }

  [[noreturn]] void FailUnknown(const ProtoMessage& message, std::string_view name) {
    std::vector<std::string> names;
    for (const ProtoField& field : message.fields) names.push_back(field.name);
    const std::string closest = ClosestName(name, names);
    FailHere(message.name, " has no field '", Printable(name), "'",
             closest.empty() ? "" : Cat("; did you mean '", closest, "'?"));
  }

  void CheckOnce(const ProtoMessage& message, const ProtoField& field, const Json& out) {
    if (!field.repeated && out.Find(field.name)) FailHere("'", field.name, "' is given twice");
    if (field.oneof < 0) return;
    for (const ProtoField& other : message.fields)
      if (other.oneof == field.oneof && out.Find(other.name))
        FailHere("'", field.name, "' and '", other.name, "' exclude each other");
  }

  void ParseValues(const ProtoField& field, Json& out, std::vector<std::pair<const ProtoField*, Json>>& lists,
                   int depth) {
    const bool colon = Take(':');
    if (Peek() == '[') {
      if (!field.repeated) FailHere("'", field.name, "' takes one value, not a list");
      ++at_;
      if (Take(']')) {
        if (lists.empty() || lists.back().first != &field) lists.emplace_back(&field, Json::Array{});
        return;
      }
      do Append(out, field, ParseValue(field, depth), lists);
      while (Take(','));
      if (!Take(']')) FailHere("']' is missing after the values of '", field.name, "'");
      return;
    }
    if (!colon && field.kind != FieldKind::kMessage) FailHere("':' is missing after '", field.name, "'");
    Append(out, field, ParseValue(field, depth), lists);
  }

  Json ParseValue(const ProtoField& field, int depth) {
    if (field.kind == FieldKind::kMessage) {
      if (Take('{')) return ParseFields(*field.message, '}', depth + 1);
      if (Take('<')) return ParseFields(*field.message, '>', depth + 1);
      FailHere("'{' is missing after '", field.name, "'");
    }
    if (field.kind == FieldKind::kString || field.kind == FieldKind::kBytes) return ParseString(field);
    const std::string_view word = Word("a value");
    switch (field.kind) {
      case FieldKind::kBool:
        if (word == "true" || word == "t" || word == "True" || word == "1") return true;
        if (word == "false" || word == "f" || word == "False" || word == "0") return false;
        FailHere("'", field.name, "' must be true or false, not '", Printable(word), "'");
      case FieldKind::kEnum:
        for (const auto& [name, number] : field.enumeration->values)
          if (name == word || Cat(number) == word) return name;
        FailHere("'", Printable(word), "' is none of ", field.enumeration->name, "'s values");
      case FieldKind::kDouble:
      case FieldKind::kFloat: return ParseFloat(word, field);
      default: return ParseInteger(word, field);
    }
  }

  Json ParseFloat(std::string_view word, const ProtoField& field) {
    std::string number(word);
    if (number.size() > 1 && (number.back() == 'f' || number.back() == 'F') && number.find("inf") == std::string::npos)
      number.pop_back();
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (end != number.c_str() + number.size())
      FailHere("'", field.name, "' must be a number, not '", Printable(word), "'");
    return value;
  }

  Json ParseInteger(std::string_view word, const ProtoField& field) {
    std::string_view digits = word;
    const bool negative = !digits.empty() && digits.front() == '-';
    if (negative) digits.remove_prefix(1);
    int base = 10;
    if (digits.size() > 2 && (digits.substr(0, 2) == "0x" || digits.substr(0, 2) == "0X")) {
      base = 16;
      digits.remove_prefix(2);
    } else if (digits.size() > 1 && digits[0] == '0') {
      base = 8;
    }
    uint64_t number = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
    const bool is_signed = field.kind == FieldKind::kInt64 || field.kind == FieldKind::kInt32;
    const bool is_narrow = field.kind == FieldKind::kInt32 || field.kind == FieldKind::kUInt32;
    const uint64_t most = (is_narrow ? uint64_t{0xFFFFFFFF} : ~uint64_t{0}) >> (is_signed ? 1 : 0);
    if (error != std::errc() || end != digits.data() + digits.size() || (negative && !is_signed) ||
        number > most + (negative ? 1 : 0))
      FailHere("'", field.name, "' must be an integer in range, not '", Printable(word), "'");
    if (negative) return static_cast<int64_t>(-static_cast<int64_t>(number - (number ? 1 : 0)) - (number ? 1 : 0));
    return number;
  }

  // Adjacent strings are one.
  Json ParseString(const ProtoField& field) {
    if (Peek() != '"' && Peek() != '\'') FailHere("'", field.name, "' must be a text in quotes");
    std::string out;
    while (Peek() == '"' || Peek() == '\'') {
      const char quote = text_[at_++];
      while (true) {
        if (at_ >= text_.size() || text_[at_] == '\n') FailHere("the text of '", field.name, "' does not end");
        const char c = text_[at_++];
        if (c == quote) break;
        if (c == '\\')
          AddEscape(out);
        else
          out += c;
      }
    }
    return out;
  }

  void AddEscape(std::string& out) {
    if (at_ >= text_.size()) FailHere("a text does not end");
    if (text_[at_] == 'u' || text_[at_] == 'U') {
      const size_t digits = text_[at_++] == 'u' ? 4 : 8;
      uint32_t point = CodePoint(digits);
      if (point >= 0xD800 && point < 0xDC00 && text_.substr(at_, 2) == "\\u") {
        at_ += 2;
        const uint32_t low = CodePoint(4);
        point = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00) : 0xD800;
      }
      if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) FailHere("an escape is no character");
      AppendCodePoint(out, point);
      return;
    }
    out += Escape();
  }

  uint32_t CodePoint(size_t digits) {
    const std::string_view text = text_.substr(at_, digits);
    uint32_t point = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), point, 16);
    if (text.size() != digits || error != std::errc() || end != text.data() + digits)
      FailHere("an escape lacks its digits");
    at_ += digits;
    return point;
  }

  char Escape() {
    const char c = text_[at_++];
    switch (c) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case 'a': return '\a';
      case 'b': return '\b';
      case 'f': return '\f';
      case 'v': return '\v';
      case 'x': return Digits(16, 2);
      default:
        if (c < '0' || c > '7') return c;
        --at_;
        return Digits(8, 3);
    }
  }
  char Digits(int base, size_t most) {
    int value = 0;
    auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + std::min(at_ + most, text_.size()), value, base);
    if (error != std::errc()) FailHere("an escape lacks its digits");
    at_ = static_cast<size_t>(end - text_.data());
    return static_cast<char>(value);
  }

  const std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Json ParseProtoText(std::string_view text, const ProtoMessage& message, const std::string& name) {
  return TextParser(text, name).Parse(message);
}

}  // namespace ferry::server

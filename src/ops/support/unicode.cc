#include "ops/support/unicode.h"

#ifndef __EMSCRIPTEN__
#include <utf8proc.h>
#endif

#include "base/utf8.h"

#ifdef __EMSCRIPTEN__
// JavaScript knows Unicode already (bindings/web/build/library.js).
extern "C" int ferry_map_case(int code_point, int upper);
extern "C" int ferry_in_unicode_class(const char* name, int code_point);  // -1: there is no such class
#endif

namespace ferry {
namespace {

bool IsSurrogate(uint32_t code_point) { return code_point >= 0xD800 && code_point < 0xE000; }

std::string MapCase(std::string_view text, uint32_t (*map)(uint32_t)) {
  std::string out;
  out.reserve(text.size());
  for (size_t place = 0; place < text.size();) {
    size_t begin = place;
    uint32_t code_point = NextCodePoint(text, place);
    if (code_point == kInvalidCodePoint)
      out.append(text.substr(begin, place - begin));
    else
      AppendCodePoint(out, map(code_point));
  }
  return out;
}

}  // namespace

#ifdef __EMSCRIPTEN__
uint32_t LowerCaseOf(uint32_t code_point) {
  if (code_point < 0x80) return code_point >= 'A' && code_point <= 'Z' ? code_point + 32 : code_point;
  if (IsSurrogate(code_point)) return code_point;
  return static_cast<uint32_t>(ferry_map_case(static_cast<int>(code_point), 0));
}
uint32_t UpperCaseOf(uint32_t code_point) {
  if (code_point < 0x80) return code_point >= 'a' && code_point <= 'z' ? code_point - 32 : code_point;
  if (IsSurrogate(code_point)) return code_point;
  return static_cast<uint32_t>(ferry_map_case(static_cast<int>(code_point), 1));
}
bool IsUnicodeClass(std::string_view name) { return ferry_in_unicode_class(std::string(name).c_str(), 'a') >= 0; }
bool IsInUnicodeClass(std::string_view name, uint32_t code_point) {
  return !IsSurrogate(code_point) &&
         ferry_in_unicode_class(std::string(name).c_str(), static_cast<int>(code_point)) == 1;
}
#else
uint32_t LowerCaseOf(uint32_t code_point) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}
uint32_t UpperCaseOf(uint32_t code_point) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code_point)));
}
bool IsUnicodeClass(std::string_view name) {
  static constexpr std::string_view kGroups = "LMNPSZC";
  return (name.size() == 1 || name.size() == 2) && kGroups.find(name[0]) != std::string_view::npos;
}
bool IsInUnicodeClass(std::string_view name, uint32_t code_point) {
  if (IsSurrogate(code_point)) return name == "C" || name == "Cs";
  const std::string_view category = utf8proc_category_string(static_cast<utf8proc_int32_t>(code_point));
  return category.substr(0, name.size()) == name;
}
#endif

bool IsWhitespace(uint32_t code_point) {
  if (code_point == kInvalidCodePoint) return false;
  const bool is_control = (code_point >= 0x09 && code_point <= 0x0d) || (code_point >= 0x1c && code_point <= 0x1f);
  return is_control || code_point == 0x85 || IsInUnicodeClass("Z", code_point);
}

std::string LowerCase(std::string_view text) { return MapCase(text, LowerCaseOf); }
std::string UpperCase(std::string_view text) { return MapCase(text, UpperCaseOf); }

}  // namespace ferry

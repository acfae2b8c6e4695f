#include "ops/support/unicode.h"

#ifdef __EMSCRIPTEN__
#include <emscripten.h>
#else
#include <utf8proc.h>
#endif

#include "base/utf8.h"

#ifdef __EMSCRIPTEN__
// JavaScript knows Unicode already; a mapping to more than one character is not a simple one.
EM_JS(int, ferry_map_case, (int code_point, int upper), {
  const letter = String.fromCodePoint(code_point);
  const mapped = upper ? letter.toUpperCase() : letter.toLowerCase();
  const first = mapped.codePointAt(0);
  return String.fromCodePoint(first) == = mapped ? first : code_point;
});
EM_JS(int, ferry_in_unicode_class, (const char* name, int code_point), {
  const known = Module.ferryUnicode || (Module.ferryUnicode = new Map());
  const text = UTF8ToString(name);
  if (!known.has(text)) {
    let made = null;
    for (const form of [`\\p{${text}}`, `\\p{Script=${text}}`]) {
      try {
        made = made || (/ ^[A - Za - z_] + $ /.test(text) ? new RegExp(form, "u") : null);
      } catch (error) {
        made = null;
      }
    }
    known.set(text, made);
  }
  const found = known.get(text);
  return found ? Number(found.test(String.fromCodePoint(code_point))) : -1;
});
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

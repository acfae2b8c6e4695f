#include "ops/support/unicode.h"

#include <utf8proc.h>

#include "base/utf8.h"

namespace ferry {
namespace {

std::string MapCase(std::string_view text, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  std::string out;
  out.reserve(text.size());
  for (size_t place = 0; place < text.size();) {
    size_t begin = place;
    uint32_t code_point = NextCodePoint(text, place);
    if (code_point == kInvalidCodePoint)
      out.append(text.substr(begin, place - begin));
    else
      AppendCodePoint(out, static_cast<uint32_t>(map(static_cast<utf8proc_int32_t>(code_point))));
  }
  return out;
}

}  // namespace

bool IsWhitespace(uint32_t code_point) {
  if (code_point == kInvalidCodePoint) return false;
  bool is_control = (code_point >= 0x09 && code_point <= 0x0d) || (code_point >= 0x1c && code_point <= 0x1f);
  if (is_control || code_point == 0x85) return true;
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

std::string LowerCase(std::string_view text) { return MapCase(text, utf8proc_tolower); }
std::string UpperCase(std::string_view text) { return MapCase(text, utf8proc_toupper); }

}  // namespace ferry

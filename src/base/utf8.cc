#include "base/utf8.h"

namespace ferry {

uint32_t NextCodePoint(std::string_view text, size_t& position) {
  auto lead = static_cast<uint8_t>(text[position++]);
  if (lead < 0x80) return lead;
  if (lead < 0xC2 || lead > 0xF4) return kInvalidCodePoint;
  int followers = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  uint32_t code_point = lead & (0x3Fu >> followers);
  size_t at = position;
  for (int i = 0; i < followers; ++i, ++at) {
    if (at >= text.size() || (static_cast<uint8_t>(text[at]) & 0xC0) != 0x80) return kInvalidCodePoint;
    code_point = code_point << 6 | (static_cast<uint8_t>(text[at]) & 0x3F);
  }
  constexpr uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
  bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
  if (code_point < kSmallest[followers] || code_point > 0x10FFFF || surrogate) return kInvalidCodePoint;
  position = at;
  return code_point;
}

void AppendCodePoint(std::string& out, uint32_t code_point) {
  auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      put(0xE0 | code_point >> 12);
    } else {
      put(0xF0 | code_point >> 18);
      put(0x80 | (code_point >> 12 & 0x3F));
    }
    put(0x80 | (code_point >> 6 & 0x3F));
  }
  put(0x80 | (code_point & 0x3F));
}

bool IsValidUtf8(std::string_view text) {
  for (size_t position = 0; position < text.size();)
    if (NextCodePoint(text, position) == kInvalidCodePoint) return false;
  return true;
}

}  // namespace ferry

// UTF-8, one code point at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ferry {

inline constexpr uint32_t kInvalidCodePoint = 0xFFFFFFFF;

// Reads the code point at text[position] and moves past it. An overlong, surrogate, cut or stray byte gives
// kInvalidCodePoint and moves one byte on.
uint32_t NextCodePoint(std::string_view text, size_t& position);
// Appends a code point; the caller has made sure that it is one (below 0x110000, no surrogate).
void AppendCodePoint(std::string& out, uint32_t code_point);
bool IsValidUtf8(std::string_view text);

}  // namespace ferry

// What the string operators need to know of Unicode's characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ferry {

bool IsWhitespace(uint32_t code_point);

// Every letter by Unicode's simple case mapping, whatever the locale; bytes that are not UTF-8 stay.
std::string LowerCase(std::string_view text);
std::string UpperCase(std::string_view text);

}  // namespace ferry

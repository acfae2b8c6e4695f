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
uint32_t LowerCaseOf(uint32_t code_point);
uint32_t UpperCaseOf(uint32_t code_point);

// By general category ("Lu", "L") and, in a browser, by script ("Greek").
bool IsUnicodeClass(std::string_view name);
bool IsInUnicodeClass(std::string_view name, uint32_t code_point);

}  // namespace ferry

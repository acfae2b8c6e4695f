// What tokenizers ask of Unicode: categories, lower case, normal forms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ferry::unicode {

// A set of general categories, a bit for each as utf8proc numbers them.
using CategorySet = uint32_t;

CategorySet CategoryBit(uint32_t code_point);
// "L", "Lu", "P" …; 0: there is no such category.
CategorySet CategoriesNamed(std::string_view name);

bool IsLetter(uint32_t code_point);
bool IsNumber(uint32_t code_point);  // Nd, Nl, No
bool IsDecimalDigit(uint32_t code_point);
bool IsMark(uint32_t code_point);
bool IsNonspacingMark(uint32_t code_point);
bool IsOther(uint32_t code_point);        // control, format, private, unassigned
bool IsWhitespace(uint32_t code_point);   // White_Space
bool IsPunctuation(uint32_t code_point);  // P*, and all of ASCII's
bool IsWordCharacter(uint32_t code_point);
bool IsHan(uint32_t code_point);
bool IsChinese(uint32_t code_point);  // what BERT puts spaces around

uint32_t LowerOf(uint32_t code_point);
uint32_t UpperOf(uint32_t code_point);
std::string LowerCase(std::string_view text);

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };
std::string Normalized(std::string_view text, NormalForm form);

// The end of the grapheme cluster that begins at `begin`.
size_t GraphemeEnd(std::string_view text, size_t begin);

// Valid UTF-8: what begins a character without ending it, and each stray byte, becomes one U+FFFD.
std::string WithoutInvalidBytes(std::string_view text);

}  // namespace ferry::unicode

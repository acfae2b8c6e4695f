#include "generate/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"

namespace ferry::unicode {
namespace {

constexpr CategorySet Bit(int category) { return CategorySet{1} << category; }

constexpr CategorySet kLetters = Bit(UTF8PROC_CATEGORY_LU) | Bit(UTF8PROC_CATEGORY_LL) | Bit(UTF8PROC_CATEGORY_LT) |
                                 Bit(UTF8PROC_CATEGORY_LM) | Bit(UTF8PROC_CATEGORY_LO);
constexpr CategorySet kMarks = Bit(UTF8PROC_CATEGORY_MN) | Bit(UTF8PROC_CATEGORY_MC) | Bit(UTF8PROC_CATEGORY_ME);
constexpr CategorySet kNumbers = Bit(UTF8PROC_CATEGORY_ND) | Bit(UTF8PROC_CATEGORY_NL) | Bit(UTF8PROC_CATEGORY_NO);
constexpr CategorySet kPunctuation = Bit(UTF8PROC_CATEGORY_PC) | Bit(UTF8PROC_CATEGORY_PD) | Bit(UTF8PROC_CATEGORY_PS) |
                                     Bit(UTF8PROC_CATEGORY_PE) | Bit(UTF8PROC_CATEGORY_PI) | Bit(UTF8PROC_CATEGORY_PF) |
                                     Bit(UTF8PROC_CATEGORY_PO);
constexpr CategorySet kSymbols =
    Bit(UTF8PROC_CATEGORY_SM) | Bit(UTF8PROC_CATEGORY_SC) | Bit(UTF8PROC_CATEGORY_SK) | Bit(UTF8PROC_CATEGORY_SO);
constexpr CategorySet kSeparators = Bit(UTF8PROC_CATEGORY_ZS) | Bit(UTF8PROC_CATEGORY_ZL) | Bit(UTF8PROC_CATEGORY_ZP);
constexpr CategorySet kOthers = Bit(UTF8PROC_CATEGORY_CC) | Bit(UTF8PROC_CATEGORY_CF) | Bit(UTF8PROC_CATEGORY_CS) |
                                Bit(UTF8PROC_CATEGORY_CO) | Bit(UTF8PROC_CATEGORY_CN);

struct NamedCategory {
  const char* name;
  CategorySet set;
};
constexpr NamedCategory kNamedCategories[] = {
    {"L", kLetters},
    {"Letter", kLetters},
    {"M", kMarks},
    {"Mark", kMarks},
    {"N", kNumbers},
    {"Number", kNumbers},
    {"P", kPunctuation},
    {"Punctuation", kPunctuation},
    {"S", kSymbols},
    {"Symbol", kSymbols},
    {"Z", kSeparators},
    {"Separator", kSeparators},
    {"C", kOthers},
    {"Other", kOthers},
    {"Lu", Bit(UTF8PROC_CATEGORY_LU)},
    {"Ll", Bit(UTF8PROC_CATEGORY_LL)},
    {"Lt", Bit(UTF8PROC_CATEGORY_LT)},
    {"Lm", Bit(UTF8PROC_CATEGORY_LM)},
    {"Lo", Bit(UTF8PROC_CATEGORY_LO)},
    {"Mn", Bit(UTF8PROC_CATEGORY_MN)},
    {"Mc", Bit(UTF8PROC_CATEGORY_MC)},
    {"Me", Bit(UTF8PROC_CATEGORY_ME)},
    {"Nd", Bit(UTF8PROC_CATEGORY_ND)},
    {"Nl", Bit(UTF8PROC_CATEGORY_NL)},
    {"No", Bit(UTF8PROC_CATEGORY_NO)},
    {"Pc", Bit(UTF8PROC_CATEGORY_PC)},
    {"Pd", Bit(UTF8PROC_CATEGORY_PD)},
    {"Ps", Bit(UTF8PROC_CATEGORY_PS)},
    {"Pe", Bit(UTF8PROC_CATEGORY_PE)},
    {"Pi", Bit(UTF8PROC_CATEGORY_PI)},
    {"Pf", Bit(UTF8PROC_CATEGORY_PF)},
    {"Po", Bit(UTF8PROC_CATEGORY_PO)},
    {"Sm", Bit(UTF8PROC_CATEGORY_SM)},
    {"Sc", Bit(UTF8PROC_CATEGORY_SC)},
    {"Sk", Bit(UTF8PROC_CATEGORY_SK)},
    {"So", Bit(UTF8PROC_CATEGORY_SO)},
    {"Zs", Bit(UTF8PROC_CATEGORY_ZS)},
    {"Zl", Bit(UTF8PROC_CATEGORY_ZL)},
    {"Zp", Bit(UTF8PROC_CATEGORY_ZP)},
    {"Cc", Bit(UTF8PROC_CATEGORY_CC)},
    {"Cf", Bit(UTF8PROC_CATEGORY_CF)},
    {"Cs", Bit(UTF8PROC_CATEGORY_CS)},
    {"Co", Bit(UTF8PROC_CATEGORY_CO)},
    {"Cn", Bit(UTF8PROC_CATEGORY_CN)},
};

struct Range {
  uint32_t first, last;
};

template <size_t N>
bool IsIn(const Range (&ranges)[N], uint32_t code_point) {
  for (const Range& range : ranges)
    if (code_point >= range.first && code_point <= range.last) return true;
  return false;
}

// Putting marks in order takes time with the square of their number: so many never stand on one letter.
constexpr size_t kMostMarksInARow = 1000;

void RequireFewMarks(std::string_view text) {
  size_t run = 0;
  for (size_t position = 0; position < text.size();) {
    const uint32_t code_point = NextCodePoint(text, position);
    run = code_point < 0x300 || !IsMark(code_point) ? 0 : run + 1;
    if (run > kMostMarksInARow)
      Fail(ErrorCode::kLimit, "the text has more than ", kMostMarksInARow, " combining marks in a row");
  }
}

}  // namespace

CategorySet CategoryBit(uint32_t code_point) {
  return Bit(utf8proc_category(static_cast<utf8proc_int32_t>(code_point)));
}

CategorySet CategoriesNamed(std::string_view name) {
  for (const NamedCategory& category : kNamedCategories)
    if (name == category.name) return category.set;
  return 0;
}

bool IsLetter(uint32_t c) { return CategoryBit(c) & kLetters; }
bool IsNumber(uint32_t c) { return CategoryBit(c) & kNumbers; }
bool IsDecimalDigit(uint32_t c) { return CategoryBit(c) & Bit(UTF8PROC_CATEGORY_ND); }
bool IsMark(uint32_t c) { return CategoryBit(c) & kMarks; }
bool IsNonspacingMark(uint32_t c) { return CategoryBit(c) & Bit(UTF8PROC_CATEGORY_MN); }
bool IsOther(uint32_t c) { return CategoryBit(c) & kOthers; }

bool IsWhitespace(uint32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || (c >= 0xA0 && (CategoryBit(c) & kSeparators));
}

bool IsPunctuation(uint32_t c) {
  if (c < 0x80) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return CategoryBit(c) & kPunctuation;
}

bool IsWordCharacter(uint32_t c) {
  // The circled and squared letters are symbols by category, alphabetic by property.
  static constexpr Range kAlphabetic[] = {
      {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
  constexpr CategorySet kWord =
      kLetters | kMarks | Bit(UTF8PROC_CATEGORY_ND) | Bit(UTF8PROC_CATEGORY_NL) | Bit(UTF8PROC_CATEGORY_PC);
  return (CategoryBit(c) & kWord) || (c >= 0x200C && IsIn(kAlphabetic, c));
}

bool IsHan(uint32_t c) {
  static constexpr Range kHan[] = {{0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
                                   {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
                                   {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
                                   {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2EE5D}, {0x2F800, 0x2FA1D},
                                   {0x30000, 0x323AF}};
  return c >= 0x2E80 && IsIn(kHan, c);
}

bool IsChinese(uint32_t c) {
  static constexpr Range kChinese[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
                                       {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return c >= 0x3400 && IsIn(kChinese, c);
}

uint32_t LowerOf(uint32_t c) { return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }
uint32_t UpperOf(uint32_t c) { return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }

std::string LowerCase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const uint32_t code_point = NextCodePoint(text, position);
    if (code_point == 0x130)
      out += "i\u0307";  // the one letter whose lower case is two
    else
      AppendCodePoint(out, LowerOf(code_point));
  }
  return out;
}

std::string Normalized(std::string_view text, NormalForm form) {
  bool is_ascii = true;
  for (char c : text) is_ascii &= static_cast<unsigned char>(c) < 0x80;
  if (is_ascii) return std::string(text);
  RequireFewMarks(text);
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::kNfc || form == NormalForm::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &made, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, std::free);
  Require(length >= 0, "text can't be normalised: ", utf8proc_errmsg(length));
  return std::string(reinterpret_cast<const char*>(made), static_cast<size_t>(length));
}

size_t GraphemeEnd(std::string_view text, size_t begin) {
  size_t position = begin;
  if (position >= text.size()) return text.size();
  utf8proc_int32_t state = 0, before = static_cast<utf8proc_int32_t>(NextCodePoint(text, position));
  while (position < text.size()) {
    size_t next = position;
    const auto code_point = static_cast<utf8proc_int32_t>(NextCodePoint(text, next));
    if (utf8proc_grapheme_break_stateful(before, code_point, &state)) break;
    before = code_point;
    position = next;
  }
  return position;
}

namespace {

// How many bytes at `text` begin a character without ending one; at least 1.
size_t BrokenLength(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = byte(0);
  const size_t wanted = lead >= 0xC2 && lead < 0xE0   ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 1;
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  size_t length = 1;
  if (wanted > 1 && byte(1) >= least && byte(1) <= most)
    for (length = 2; length < wanted && (byte(length) & 0xC0) == 0x80; ++length) continue;
  return length;
}

}  // namespace

std::string WithoutInvalidBytes(std::string_view text) {
  if (IsValidUtf8(text)) return std::string(text);
  std::string out;
  for (size_t position = 0; position < text.size();) {
    size_t next = position;
    const uint32_t code_point = NextCodePoint(text, next);
    const bool is_broken = code_point == kInvalidCodePoint;
    AppendCodePoint(out, is_broken ? 0xFFFD : code_point);
    position = is_broken ? position + BrokenLength(text.substr(position)) : next;
  }
  return out;
}

}  // namespace ferry::unicode

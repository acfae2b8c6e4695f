#include "ops/support/number_text.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/text.h"
#include "tensor/small_float.h"

namespace ferry {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The parts of "12.5e-3" without its sign; `ok` is false when the text is something else.
struct Decimal {
  explicit Decimal(std::string_view text) {
    size_t at = 0, digits = 0;
    bool seen_nonzero = false;
    for (; at < text.size() && IsDigit(text[at]); ++at, ++digits) {
      seen_nonzero |= text[at] != '0';
      magnitude += seen_nonzero;
    }
    if (at < text.size() && text[at] == '.') {
      for (++at; at < text.size() && IsDigit(text[at]); ++at, ++digits) {
        if (!seen_nonzero && text[at] == '0') --magnitude;
        seen_nonzero |= text[at] != '0';
      }
    }
    ok = digits > 0;
    if (ok && at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
      ++at;
      bool negative = at < text.size() && text[at] == '-';
      if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
      ok = at < text.size() && IsDigit(text[at]);
      int64_t exponent = 0;
      for (; at < text.size() && IsDigit(text[at]); ++at)
        if (exponent < 1'000'000'000) exponent = exponent * 10 + (text[at] - '0');
      magnitude += negative ? -exponent : exponent;
    }
    ok = ok && at == text.size();
  }
  bool ok = false;
  int64_t magnitude = 0;  // the value is below 10^magnitude and, unless it is 0, not far below
};

double ReadDecimal(std::string_view text, const Decimal& decimal) {
#if defined(__cpp_lib_to_chars)
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  (void)end;
  if (error == std::errc::result_out_of_range) return decimal.magnitude > 0 ? HUGE_VAL : 0.0;
  return value;
#else
  (void)decimal;
  return std::strtod(std::string(text).c_str(), nullptr);
#endif
}

// What reading a text as `type` would give.
double RoundedTo(DType type, double value) {
  if (type == DType::kFloat) return static_cast<float>(value);
  if (type == DType::kFloat16) return ToFloat(ToFloat16(static_cast<float>(value)));
  return value;
}

template <class T>
std::optional<T> ParseWhole(std::string_view text) {
  text = Trimmed(text);
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  for (size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

std::optional<double> ParseFloat(std::string_view text) {
  text = Trimmed(text);
  bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  double sign = negative ? -1.0 : 1.0;
  if (EqualIgnoringCase(text, "inf") || EqualIgnoringCase(text, "infinity")) return sign * HUGE_VAL;
  if (EqualIgnoringCase(text, "nan")) return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  Decimal decimal(text);
  if (!decimal.ok) return std::nullopt;
  return sign * ReadDecimal(text, decimal);
}

std::optional<int64_t> ParseInt(std::string_view text) { return ParseWhole<int64_t>(text); }
std::optional<uint64_t> ParseUInt(std::string_view text) { return ParseWhole<uint64_t>(text); }

std::string FloatText(double value, DType type) {
  if (std::isnan(value)) return "nan";
  std::string sign = std::signbit(value) ? "-" : "";
  value = std::abs(value);
  if (std::isinf(value)) return sign + "inf";
  if (value == 0) return sign + "0.0";
  std::string digits;
  int exponent = 0;
  for (int precision = 0; precision < 17; ++precision) {
    char written[40];
    std::snprintf(written, sizeof written, "%.*e", precision, value);
    digits.clear();
    const char* c = written;
    for (; *c != 'e'; ++c)
      if (IsDigit(*c)) digits.push_back(*c);  // passes over the locale's decimal point
    exponent = std::atoi(c + 1);
    std::optional<double> back = ParseFloat(Cat(digits[0], ".", digits.substr(1), "e", exponent));
    if (back && RoundedTo(type, *back) == value) break;
  }
  if (exponent < -4 || exponent >= 16) {
    char tail[16];
    std::snprintf(tail, sizeof tail, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return Cat(sign, digits[0], digits.size() > 1 ? "." : "", digits.substr(1), tail);
  }
  if (exponent < 0) return Cat(sign, "0.", std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return Cat(sign, digits, std::string(whole - digits.size(), '0'), ".0");
  return Cat(sign, digits.substr(0, whole), ".", digits.substr(whole));
}

}  // namespace ferry

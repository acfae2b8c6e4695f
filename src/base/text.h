// Small pieces of text handling; Cat joins values into one string without streams.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ferry {

void AppendTo(std::string& out, std::string_view text);
void AppendTo(std::string& out, double number);
void AppendInteger(std::string& out, int64_t number);
void AppendUnsigned(std::string& out, uint64_t number);

inline void AppendTo(std::string& out, const char* text) { AppendTo(out, std::string_view(text)); }
inline void AppendTo(std::string& out, const std::string& text) { AppendTo(out, std::string_view(text)); }
inline void AppendTo(std::string& out, char c) { out.push_back(c); }
inline void AppendTo(std::string& out, bool b) { AppendTo(out, b ? "true" : "false"); }

template <class T>
requires(std::is_integral_v<T>) void AppendTo(std::string& out, T number) {
  if constexpr (std::is_signed_v<T>)
    AppendInteger(out, number);
  else
    AppendUnsigned(out, number);
}

// Anything with a ToText() found by argument-dependent lookup (Shape, DType, Type …).
template <class T>
requires((std::is_class_v<T> || std::is_enum_v<T>)&&requires(const T& v) { ToText(v); }) void AppendTo(std::string& out,
                                                                                                       const T& value) {
  AppendTo(out, std::string_view(ToText(value)));
}

template <class... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  (AppendTo(out, parts), ...);
  return out;
}

template <class Container>
std::string Join(const Container& parts, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) AppendTo(out, separator);
    AppendTo(out, part);
    first = false;
  }
  return out;
}

std::vector<std::string> SplitText(std::string_view text, char separator);

// A name as it may be shown on a terminal: control bytes are escaped, an absurd length is cut.
std::string Printable(std::string_view text, size_t longest = 200);

// The closest of `candidates` to `word` by edit distance, or empty when none is near: for "did you mean".
std::string ClosestName(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ferry

extern template class std::vector<std::string>;

// Whether a word is one of a few.
#pragma once

#include <initializer_list>
#include <string_view>

namespace ferry {

template <class Words = std::initializer_list<std::string_view>>
constexpr bool IsOneOf(std::string_view word, const Words& words) {
  for (std::string_view one : words)
    if (one == word) return true;
  return false;
}

}  // namespace ferry

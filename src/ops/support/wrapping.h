// Sums and products that are defined for every value: integers wrap around, bools are or and and.
#pragma once

#include <cstdint>
#include <type_traits>

namespace ferry {

template <class T>
T WrappingAdd(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

template <class T>
T WrappingMultiply(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, bool>)
    return a && b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

}  // namespace ferry

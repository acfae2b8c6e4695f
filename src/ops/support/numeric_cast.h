// Conversions between numbers that are defined for every value.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace ferry {

// Floats are cut toward zero. ONNX leaves open what happens outside the target's range; Ferry does what numpy does on
// x86: the value goes through int32 (int64 for 32-bit unsigned and 64-bit targets), where NaN and everything out of
// range become the smallest integer, and the low bits of that are kept. −1.0 to uint8 is 255, 300.0 to int8 is 44.
template <class To, class From>
To NumericCast(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Step = std::conditional_t<(sizeof(To) < 4 || std::is_same_v<To, int32_t>), int32_t, int64_t>;
    // −2^31 and −2^63 are exact in either float type, and so is the power above the largest integer.
    constexpr From kLow = static_cast<From>(std::numeric_limits<Step>::min());
    if constexpr (std::is_same_v<To, uint64_t>) {
      if (value >= -kLow && value < -2 * kLow) return static_cast<uint64_t>(value);
    }
    bool fits = value >= kLow && value < -kLow;
    return static_cast<To>(fits ? static_cast<Step>(value) : std::numeric_limits<Step>::min());
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace ferry

// Pieces of the integer matrix products and convolutions: zero points and the way back to eight bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ops/support/dispatch.h"
#include "tensor/tensor.h"

namespace ferry {

template <class Body>
void DispatchBytes(DType type, const Body& body) {
  Dispatch(TypeList<int8_t, uint8_t>{}, type, body);
}

// The elements of a zero point of type `type`; a single 0 when it is omitted.
inline std::vector<int32_t> ZeroPoints(const Tensor* zero, DType type) {
  if (!zero) return {0};
  Require(zero->dtype() == type, "the zero point is ", zero->dtype(), ", the values are ", type);
  Require(zero->size() > 0, "the zero point is empty");
  std::vector<int32_t> values;
  DispatchBytes(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    values.assign(zero->Data<T>(), zero->Data<T>() + zero->size());
  });
  return values;
}

// saturate(round(sum · scale) + zero), rounding halves to even.
template <class Y>
Y Requantize(int32_t sum, float scale, int32_t zero) {
  double value = std::nearbyint(static_cast<double>(sum) * static_cast<double>(scale)) + zero;
  // Written so that NaN becomes a number too.
  if (!(value > static_cast<double>(std::numeric_limits<Y>::min()))) return std::numeric_limits<Y>::min();
  if (value >= static_cast<double>(std::numeric_limits<Y>::max())) return std::numeric_limits<Y>::max();
  return static_cast<Y>(value);
}

}  // namespace ferry

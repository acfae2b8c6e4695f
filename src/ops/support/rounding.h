// Rounding between the steps of an operator that the standard defines by a chain of others: with small floats each step
// of the chain rounds to the type, and results are only the same bits if ours do too.
#pragma once

#include <cstdint>

#include "tensor/small_float.h"

namespace ferry {

inline void RoundTo(DType type, float* values, int64_t count) {
  if (type == DType::kFloat16)
    for (int64_t i = 0; i < count; ++i) values[i] = ToFloat(ToFloat16(values[i]));
  else if (type == DType::kBFloat16)
    for (int64_t i = 0; i < count; ++i) values[i] = ToFloat(ToBFloat16(values[i]));
}
inline void RoundTo(DType type, double* values, int64_t count) {
  if (type == DType::kDouble) return;
  for (int64_t i = 0; i < count; ++i) {
    auto value = static_cast<float>(values[i]);
    RoundTo(type, &value, 1);
    values[i] = value;
  }
}

// Σ values as a type adds them up. bfloat16 rounds after every addition in the standard's cases; over long rows that
// would lose everything (256 + 1 is 256), so only runs of 16 are added that way and the runs in float.
inline float SumRounded(DType type, const float* values, int64_t count) {
  float sum = 0;
  if (type != DType::kBFloat16) {
    for (int64_t i = 0; i < count; ++i) sum += values[i];
  } else {
    constexpr int64_t kRun = 16;
    for (int64_t first = 0; first < count; first += kRun) {
      float part = 0;
      for (int64_t i = first; i < count && i < first + kRun; ++i) part = ToFloat(ToBFloat16(part + values[i]));
      sum += part;
    }
  }
  RoundTo(type, &sum, 1);
  return sum;
}
inline double SumRounded(DType, const double* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

}  // namespace ferry

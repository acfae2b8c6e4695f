// Softmax over one contiguous line; sums are in double. x and y may be the same.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/support/rounding.h"

namespace ferry {

// NaN wins, as numpy's max has it.
template <class T>
T LargestOf(const T* x, int64_t count) {
  T largest = x[0];
  for (int64_t i = 1; i < count; ++i) largest = largest != largest || largest > x[i] ? largest : x[i];
  return largest;
}

template <class T>
void SoftmaxLine(const T* x, T* y, int64_t count) {
  T largest = LargestOf(x, count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    y[i] = std::exp(x[i] - largest);
    sum += y[i];
  }
  T factor = static_cast<T>(1 / sum);
  for (int64_t i = 0; i < count; ++i) y[i] *= factor;
}

// A line of a small float `type`, held as float: the steps of the chain that defines Softmax round to the type.
inline void RoundedSoftmaxLine(DType type, const float* x, float* y, int64_t count) {
  float largest = LargestOf(x, count);
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] - largest;
  RoundTo(type, y, count);
  for (int64_t i = 0; i < count; ++i) y[i] = std::exp(y[i]);
  RoundTo(type, y, count);
  float sum = SumRounded(type, y, count);
  for (int64_t i = 0; i < count; ++i) y[i] /= sum;
}

template <class T>
void LogSoftmaxLine(const T* x, T* y, int64_t count) {
  T largest = LargestOf(x, count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i] - largest);
  T log_sum = static_cast<T>(std::log(sum));
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] - largest - log_sum;
}

}  // namespace ferry

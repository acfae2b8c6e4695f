// Softmax over one contiguous line; sums are in double. x and y may be the same.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/work_poll.h"
#include "ops/support/rounding.h"

namespace ferry {

constexpr int64_t kExpWork = 4;  // an exponential, in elements of a simple loop

// NaN wins, as numpy's max has it.
template <class T>
T LargestOf(const T* x, int64_t count) {
  T largest = x[0];
  ForLookedParts(count, 1, [&](int64_t begin, int64_t end) {
    T found = largest;
    for (int64_t i = begin; i < end; ++i) found = found != found || found > x[i] ? found : x[i];
    largest = found;
  });
  return largest;
}

template <class T>
void SoftmaxLine(const T* x, T* y, int64_t count) {
  T largest = LargestOf(x, count);
  double sum = 0;
  ForLookedParts(count, kExpWork, [&](int64_t begin, int64_t end) {
    double part = sum;
    for (int64_t i = begin; i < end; ++i) {
      y[i] = std::exp(x[i] - largest);
      part += y[i];
    }
    sum = part;
  });
  T factor = static_cast<T>(1 / sum);
  ForLookedParts(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] *= factor;
  });
}

// A line of a small float `type`, held as float: the steps of the chain that defines Softmax round to the type.
inline void RoundedSoftmaxLine(DType type, const float* x, float* y, int64_t count) {
  float largest = LargestOf(x, count);
  ForLookedParts(count, kExpWork, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = x[i] - largest;
    RoundTo(type, y + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) y[i] = std::exp(y[i]);
    RoundTo(type, y + begin, end - begin);
  });
  float sum = SumRounded(type, y, count);
  ForLookedParts(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] /= sum;
  });
}

template <class T>
void LogSoftmaxLine(const T* x, T* y, int64_t count) {
  T largest = LargestOf(x, count);
  double sum = 0;
  ForLookedParts(count, kExpWork, [&](int64_t begin, int64_t end) {
    double part = sum;
    for (int64_t i = begin; i < end; ++i) part += std::exp(x[i] - largest);
    sum = part;
  });
  T log_sum = static_cast<T>(std::log(sum));
  ForLookedParts(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = x[i] - largest - log_sum;
  });
}

}  // namespace ferry

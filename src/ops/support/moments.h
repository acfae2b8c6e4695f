// Mean and variance of a run of floats, in double.
#pragma once

#include <cstdint>

#include "base/work_poll.h"

namespace ferry {

struct Moments {
  double mean = 0;
  double variance = 0;  // of the whole population: the sum of squares is divided by the count
};

// Σ f(x) in lanes that do not wait for each other.
template <class T, class F>
double SumOver(const T* x, int64_t count, const F& f) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  ForLookedParts(count, 1, [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += f(x[i + lane]);
    for (; i < end; ++i) lanes[0] += f(x[i]);
  });
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// Two passes: the squares are taken of differences that are small already.
template <class T>
Moments MomentsOf(const T* x, int64_t count) {
  auto n = static_cast<double>(count);
  double mean = SumOver(x, count, [](T value) { return static_cast<double>(value); }) / n;
  double squares = SumOver(x, count, [mean](T value) {
    double difference = static_cast<double>(value) - mean;
    return difference * difference;
  });
  return {mean, squares / n};
}

}  // namespace ferry

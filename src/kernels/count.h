// Loops over the bits of floating-point numbers, vectorised: how large and how small they are. Floats are in the order
// of their bits once those of negative ones are turned around, and integers are compared as quickly whatever NaN may be
// among them.
#pragma once

#include <stdint.h>

#include "kernels/isa.h"

namespace ferry {

// Integers that are in the order of the numbers; its own inverse. Beyond the infinities lie the NaNs.
template <class Integer>
constexpr Integer InOrder(Integer bits) {
  constexpr Integer kMagnitude = static_cast<Integer>(~(Integer{1} << (8 * sizeof(Integer) - 1)));
  return bits ^ ((bits >> (8 * sizeof(Integer) - 1)) & kMagnitude);
}

template <class Integer>
struct BitExtent {
  Integer least, largest;  // in order
  Integer smallest;        // magnitude above 0; the largest integer when all are 0
};

// What is counted: magnitudes but 0 up to two limits and from one on, and numbers up to one.
template <class Integer>
struct BitLimits {
  Integer small, smaller, large;
  Integer least;  // in order
};

struct BitCounts {
  int64_t small = 0, smaller = 0, large = 0, least = 0;
};

struct CountKernels {
  // Numbers may lie at any address, as they do in a file.
  BitExtent<int32_t> (*extent32)(const void* numbers, int64_t count);
  BitExtent<int64_t> (*extent64)(const void* numbers, int64_t count);
  BitCounts (*count32)(const void* numbers, int64_t count, const BitLimits<int32_t>& limits);
  BitCounts (*count64)(const void* numbers, int64_t count, const BitLimits<int64_t>& limits);
};

const CountKernels& BestCountKernels();
const CountKernels& CountKernelsOf(Isa isa);

}  // namespace ferry

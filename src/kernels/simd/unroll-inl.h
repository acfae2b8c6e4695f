#pragma once

#include "kernels/simd/target.h"

#define FERRY_INLINE __attribute__((always_inline))

namespace ferry::FERRY_ISA {

// Loops over constants: indices that are known from the start keep arrays in registers.
template <int kFrom, int kTo, class Body>
static HWY_INLINE void Unroll(const Body& body) {
  if constexpr (kFrom < kTo) {
    body.template operator()<kFrom>();
    Unroll<kFrom + 1, kTo>(body);
  }
}

}  // namespace ferry::FERRY_ISA

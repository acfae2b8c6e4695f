#pragma once

#include "kernels/simd/target.h"

namespace ferry::FERRY_ISA {

// sum += a · b. Compilers that may choose mix the sums of several steps, for which there are not enough registers.
HWY_INLINE void AddProduct(Floats a, Floats b, Floats& sum) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  asm volatile("vfmadd231ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
#else
  sum = hn::MulAdd(a, b, sum);
#endif
}

}  // namespace ferry::FERRY_ISA

// Every source in this folder is compiled once per instruction set (cmake/kernels.cmake), each time into the namespace
// FERRY_ISA, and knows its vector width while compiling. Nothing but Highway and plain C headers may be included here:
// an inline function of the standard library compiled for AVX-512 could end up in code that runs everywhere.
#pragma once

#ifndef HWY_COMPILE_ONLY_STATIC
#define HWY_COMPILE_ONLY_STATIC
#endif
#include <hwy/highway.h>

#include <stddef.h>
#include <stdint.h>

#ifndef FERRY_ISA
#error "compile through cmake/kernels.cmake"
#endif

namespace ferry::FERRY_ISA {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;
using FloatMask = hn::Mask<FloatTag>;
inline constexpr size_t kLanes = HWY_LANES(float);

#if HWY_TARGET <= HWY_AVX3
inline constexpr int kRegisters = 32;
#elif HWY_TARGET == HWY_NEON
inline constexpr int kRegisters = 32;
#else
inline constexpr int kRegisters = 16;
#endif

}  // namespace ferry::FERRY_ISA

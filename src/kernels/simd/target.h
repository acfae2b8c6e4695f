// Every source in this folder is compiled once per instruction set (cmake/kernels.cmake), each time into the namespace
// FERRY_ISA, and knows its vector width while compiling. Nothing but Highway and plain C headers may be included here:
// an inline function of the standard library compiled for AVX-512 could end up in code that runs everywhere.
#pragma once

#if !defined(HWY_COMPILE_ONLY_STATIC) && !defined(HWY_COMPILE_ONLY_SCALAR)
#define HWY_COMPILE_ONLY_STATIC
#endif
// Its checks in sanitizer builds call a function of its library, of which only the headers are used here.
#define HWY_IS_DEBUG_BUILD 0
#include <hwy/highway.h>
#include <stddef.h>
#include <stdint.h>

#if HWY_TARGET == HWY_SCALAR
// It is there to be small and right: loops stay loops.
#undef HWY_UNROLL
#define HWY_UNROLL(factor)
#endif

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

// The lanes that `mask` names; nothing else is read or written. Without masked instructions Highway reads and writes
// whole vectors, beyond the end of what is there.
#if HWY_TARGET <= HWY_AVX2 || HWY_TARGET == HWY_SCALAR
template <class D>
HWY_INLINE hn::Vec<D> LoadWhere(hn::Mask<D> mask, D d, const hn::TFromD<D>* from) {
#if HWY_TARGET == HWY_SCALAR
  if (!hn::AllTrue(d, mask)) return hn::Zero(d);  // Highway's own reads first and looks at the mask afterwards
#endif
  return hn::MaskedLoad(mask, d, from);
}
template <class D>
HWY_INLINE void StoreWhere(hn::Vec<D> x, hn::Mask<D> mask, D d, hn::TFromD<D>* to) {
  hn::BlendedStore(x, mask, d, to);
}
#else
template <class D>
HWY_NOINLINE hn::Vec<D> LoadWhere(hn::Mask<D> mask, D d, const hn::TFromD<D>* from) {
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())] = {};
  uint8_t bits[8];
  hn::StoreMaskBits(d, mask, bits);
  for (size_t i = 0; i < hn::MaxLanes(D()); ++i)
    if (bits[i / 8] >> i % 8 & 1) lanes[i] = from[i];
  return hn::Load(d, lanes);
}
template <class D>
HWY_NOINLINE void StoreWhere(hn::Vec<D> x, hn::Mask<D> mask, D d, hn::TFromD<D>* to) {
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())];
  uint8_t bits[8];
  hn::StoreMaskBits(d, mask, bits);
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::MaxLanes(D()); ++i)
    if (bits[i / 8] >> i % 8 & 1) to[i] = lanes[i];
}
#endif

}  // namespace ferry::FERRY_ISA

// Bias, residual and activation where results leave the registers.
#pragma once

#include "kernels/simd/activation-inl.h"

namespace ferry::FERRY_ISA {

// The cheap activations are limits; the others take a second pass over finished values (ActivateSpan).
struct Limits {
  Floats low, high;

  explicit Limits(const Activation& activation) {
    const FloatTag d;
    const float infinity = __builtin_inff();
    bool clip = activation.kind == ActivationKind::kClip;
    low = hn::Set(d, clip ? activation.alpha : activation.kind == ActivationKind::kRelu ? 0.0f : -infinity);
    high = hn::Set(d, clip ? activation.beta : infinity);
  }
  HWY_INLINE Floats Apply(Floats x) const { return AtMost(high, AtLeast(low, x)); }
};

// The same for half a vector too.
static HWY_INLINE Floats Limited(FloatTag, const Limits& limits, Floats x) { return limits.Apply(x); }
template <class D>
static HWY_INLINE hn::Vec<D> Limited(D d, const Limits& limits, hn::Vec<D> x) {
  return hn::LowerHalf(d, limits.Apply(ZeroExtendVector(FloatTag(), x)));
}

// x[i] = activation(x[i])
void ActivateSpan(const Activation& activation, float* x, int64_t count);

}  // namespace ferry::FERRY_ISA

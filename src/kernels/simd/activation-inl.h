#pragma once

#include "kernels/activation.h"
#include "kernels/simd/math-inl.h"

namespace ferry::FERRY_ISA {

// x/2 · (1 + tanh(u)) = x · sigmoid(2u)
static HWY_INLINE Floats GeluTanh(Floats x) {
  const FloatTag d;
  Floats cubic = hn::MulAdd(hn::Mul(hn::Set(d, 0.044715f), x), hn::Mul(x, x), x);
  return DivideByExpPlusOne(x, hn::Mul(cubic, hn::Set(d, -1.5957691216f)));
}

static HWY_INLINE Floats Gelu(Floats x) { return hn::Mul(x, hn::Add(hn::Set(FloatTag(), 0.5f), NormalCdfLessHalf(x))); }

template <ActivationKind kKind>
static HWY_INLINE Floats Activate(Floats x, Floats alpha, Floats beta) {
  const FloatTag d;
  const Floats zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  switch (kKind) {
    case ActivationKind::kNone: return x;
    case ActivationKind::kRelu: return hn::IfThenZeroElse(hn::Lt(x, zero), x);  // NaN stays NaN
    case ActivationKind::kClip: {
      Floats raised = hn::IfThenElse(hn::Lt(x, alpha), alpha, x);
      return hn::IfThenElse(hn::Gt(raised, beta), beta, raised);
    }
    case ActivationKind::kLeakyRelu: return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(x, alpha), x);
    case ActivationKind::kSigmoid: return Sigmoid(x);
    case ActivationKind::kSilu: return DivideByExpPlusOne(x, hn::Neg(hn::Mul(x, alpha)));
    case ActivationKind::kHardSigmoid: return AtMost(one, AtLeast(zero, hn::MulAdd(x, alpha, beta)));
    case ActivationKind::kHardSwish:
      return hn::Mul(x, AtMost(one, AtLeast(zero, hn::MulAdd(x, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f)))));
    case ActivationKind::kTanh: return Tanh(x);
    case ActivationKind::kGelu: return Gelu(x);
    case ActivationKind::kGeluTanh: return GeluTanh(x);
  }
}

// Calls body with the activation as a compile-time constant: body.template operator()<kind>().
template <class Body>
static HWY_INLINE void WithActivation(ActivationKind kind, const Body& body) {
  switch (kind) {
    case ActivationKind::kNone: return body.template operator()<ActivationKind::kNone>();
    case ActivationKind::kRelu: return body.template operator()<ActivationKind::kRelu>();
    case ActivationKind::kClip: return body.template operator()<ActivationKind::kClip>();
    case ActivationKind::kLeakyRelu: return body.template operator()<ActivationKind::kLeakyRelu>();
    case ActivationKind::kSigmoid: return body.template operator()<ActivationKind::kSigmoid>();
    case ActivationKind::kSilu: return body.template operator()<ActivationKind::kSilu>();
    case ActivationKind::kHardSigmoid: return body.template operator()<ActivationKind::kHardSigmoid>();
    case ActivationKind::kHardSwish: return body.template operator()<ActivationKind::kHardSwish>();
    case ActivationKind::kTanh: return body.template operator()<ActivationKind::kTanh>();
    case ActivationKind::kGelu: return body.template operator()<ActivationKind::kGelu>();
    case ActivationKind::kGeluTanh: return body.template operator()<ActivationKind::kGeluTanh>();
  }
}

}  // namespace ferry::FERRY_ISA

#pragma once

#include "kernels/activation.h"
#include "kernels/simd/math-inl.h"

namespace ferry::FERRY_ISA {

// x/2 · (1 + tanh(u)) = x · sigmoid(2u)
static HWY_INLINE Floats GeluTanh(Floats x) {
  const FloatTag d;
  Floats cubic = hn::MulAdd(hn::Mul(hn::Set(d, 0.044715f), x), hn::Mul(x, x), x);
  const Floats least = hn::Set(d, kLeastSigmoidArgument);
  return DivideByExpPlusOne(AtLeast(least, x), AtLeast(least, hn::Mul(cubic, hn::Set(d, 1.5957691216f))));
}

static HWY_INLINE Floats Gelu(Floats x) { return hn::Mul(x, hn::Add(hn::Set(FloatTag(), 0.5f), NormalCdfLessHalf(x))); }

// x · sigmoid(alpha · x)
static HWY_INLINE Floats Swish(Floats x, Floats alpha) {
  const Floats least = hn::Set(FloatTag(), kLeastSigmoidArgument), scaled = hn::Mul(x, alpha);
  return DivideByExpPlusOne(hn::IfThenZeroElse(hn::Lt(scaled, least), x), AtLeast(least, scaled));
}

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
    case ActivationKind::kSilu: return Swish(x, alpha);
    case ActivationKind::kHardSigmoid: return AtMost(one, AtLeast(zero, hn::MulAdd(x, alpha, beta)));
    case ActivationKind::kHardSwish:
      return hn::Mul(x, AtMost(one, AtLeast(zero, hn::MulAdd(x, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f)))));
    case ActivationKind::kTanh: return Tanh(x);
    case ActivationKind::kGelu: return Gelu(x);
    case ActivationKind::kGeluTanh: return GeluTanh(x);
  }
}

// Calls body with the activation as a function of Floats, chosen while compiling.
template <class Body>
static HWY_INLINE void WithActivation(const Activation& activation, const Body& body) {
  using Kind = ActivationKind;
  const FloatTag d;
  const Floats alpha = hn::Set(d, activation.alpha), beta = hn::Set(d, activation.beta);
  auto run = [&]<Kind kKind>() { body([&](Floats x) { return Activate<kKind>(x, alpha, beta); }); };
  switch (activation.kind) {
    case Kind::kNone: return run.template operator()<Kind::kNone>();
    case Kind::kRelu: return run.template operator()<Kind::kRelu>();
    case Kind::kClip: return run.template operator()<Kind::kClip>();
    case Kind::kLeakyRelu: return run.template operator()<Kind::kLeakyRelu>();
    case Kind::kSigmoid: return run.template operator()<Kind::kSigmoid>();
    case Kind::kSilu:
      if (activation.alpha == 1.0f) return body([](Floats x) { return Silu(x); });
      return run.template operator()<Kind::kSilu>();
    case Kind::kHardSigmoid: return run.template operator()<Kind::kHardSigmoid>();
    case Kind::kHardSwish: return run.template operator()<Kind::kHardSwish>();
    case Kind::kTanh: return run.template operator()<Kind::kTanh>();
    case Kind::kGelu: return run.template operator()<Kind::kGelu>();
    case Kind::kGeluTanh: return run.template operator()<Kind::kGeluTanh>();
  }
}

}  // namespace ferry::FERRY_ISA

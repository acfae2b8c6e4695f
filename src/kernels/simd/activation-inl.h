#pragma once

#include "kernels/activation.h"
#include "kernels/simd/math-inl.h"

namespace ferry::FERRY_ISA {

// x/2 · (1 + tanh(u)) = x · sigmoid(2u) = x / (1 + 2^-v), v = x · (k1 + k3 · x²). Where v is large its rounding would
// show in many digits of 2^-v, so that what the factor's rounding left out is kept.
static HWY_INLINE Floats GeluTanh(Floats x) {
  const FloatTag d;
  constexpr double kLog2E = 1.4426950408889634, k1 = 1.5957691216057308 * kLog2E, k3 = 0.044715 * k1;
  constexpr float k1High = 2.30224609375f, k1Low = static_cast<float>(k1 - double{k1High});  // few enough digits
  constexpr float k3High = static_cast<float>(k3), k3Low = static_cast<float>(k3 - double{k3High});
  const Floats y = AtLeast(hn::Set(d, -10.04f), x);  // 2^-v is about to overflow
  const Floats a = AtMost(hn::Set(d, 6.0f), y);      // it is nothing beside 1
  const Floats s = hn::Mul(a, a), cubic = hn::Set(d, k3High), linear = hn::Set(d, k1High);
  const Floats factor = hn::MulAdd(s, cubic, linear);
  Floats rest = MulAddOnce(s, cubic, hn::Sub(linear, factor));
  rest = hn::MulAdd(MulAddOnce(a, a, hn::Neg(s)), cubic, rest);
  rest = hn::Add(rest, hn::MulAdd(s, hn::Set(d, k3Low), hn::Set(d, k1Low)));
  const Floats whole = hn::Set(d, 12582912.0f + 127);
  const Floats shifted = hn::NegMulAdd(a, factor, whole);
  const Floats r = hn::MulAdd(a, rest, MulAddOnce(a, factor, hn::Sub(shifted, whole)));
  const Floats q = Quintic{-6.931471806e-01f, 2.402265070e-01f,  -5.550361903e-02f,
                           9.618023624e-03f,  -1.339034663e-03f, 1.547160707e-04f}(r);
  const Floats power = PowerOfLowestBits(hn::BitCast(hn::RebindToSigned<FloatTag>(), shifted));
  return hn::Div(y, hn::Add(hn::MulAdd(hn::Mul(power, r), q, hn::Set(d, 1.0f)), power));
}

// x · Φ(x) = max(x, 0) − |x| · Φ(−|x|), Φ the normal distribution's function. Φ(−a) = e^(−a²/2) · f / (a + k), f a
// polynomial of y = a / (a + k) that is 1 at y0; the exponent's square is never rounded. Coefficients are such that no
// number is off by more than 2 ULP where products and sums are rounded once.
static HWY_INLINE Floats Gelu(Floats x) {
  const FloatTag d;
  const Floats a = AtMost(hn::Set(d, 13.27f), hn::Abs(x));  // where the power is 0
  const Floats whole = hn::Set(d, 12582912.0f + 127);
  const Floats shifted = hn::MulAdd(hn::Mul(a, a), hn::Set(d, -0.72134752f), whole);
  const Floats n = hn::Sub(shifted, whole);
  Floats r = MulAddOnce(a, a, hn::Mul(n, hn::Set(d, 2 * 0.693145751953125f)));
  r = hn::MulAdd(n, hn::Set(d, 2 * 1.42860677e-6f), r);
  const Floats power = PowerOfLowestBits(hn::BitCast(hn::RebindToSigned<FloatTag>(), shifted));
  const Floats e = hn::Mul(
      r, Quintic{-0.5f, 0.125f, -0.0208331235f, 0.00260413811f, -0.00026156861f, 2.17972993e-05f}(r));  // e^(−r/2) − 1
  const Floats y = hn::Div(a, hn::Add(a, hn::Set(d, 2.5625f)));
  const Floats z = hn::Sub(y, hn::Set(d, 0.221775904f));
  Floats p = hn::MulAdd(z, hn::Set(d, -0.0744844377f), hn::Set(d, 0.0921383053f));
  p = hn::MulAdd(p, z, hn::Set(d, 0.0616615713f));
  p = hn::MulAdd(p, z, hn::Set(d, -0.0140139582f));
  p = hn::MulAdd(p, z, hn::Set(d, -0.144570664f));
  p = hn::MulAdd(p, z, hn::Set(d, -0.12356136f));
  p = hn::MulAdd(p, z, hn::Set(d, 0.263756454f));
  p = hn::MulAdd(p, z, hn::Set(d, 0.445713669f));
  p = hn::MulAdd(p, z, hn::Set(d, -1.18330634f));
  const Floats f = hn::MulAdd(p, z, hn::Set(d, 1.0f));
  const Floats both = hn::MulAdd(p, z, hn::Mul(e, f));  // (1 + e) · f − 1
  return hn::NegMulAdd(hn::MulAdd(y, both, y), power, hn::Max(x, hn::Zero(d)));
}

// x · sigmoid(alpha · x)
static HWY_INLINE Floats Swish(Floats x, Floats alpha) {
  const FloatTag d;
  const Floats least = hn::Set(d, kLeastSigmoidArgument), scaled = hn::Mul(x, alpha);
  const FloatMask below = hn::Lt(scaled, least);
  // Elsewhere alpha · x may be infinite.
  const FloatMask matters = hn::Lt(hn::Abs(scaled), hn::Set(d, -kLeastSigmoidArgument));
  const Floats low = hn::IfThenElseZero(matters, MulAddOnce(x, alpha, hn::Neg(scaled)));
  return DivideByExpPlusOne(hn::IfThenZeroElse(below, x), AtLeast(least, scaled), low);
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

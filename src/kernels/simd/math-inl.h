// exp, tanh, sigmoid, erf on vectors of float, to about 2 ULP.
#pragma once

#include "kernels/simd/target.h"

namespace ferry::FERRY_ISA {

// 2^n for integral n in [-126, 127], by building the exponent field.
static HWY_INLINE Floats PowerOfTwo(hn::Vec<hn::RebindToSigned<FloatTag>> n) {
  const hn::RebindToSigned<FloatTag> di;
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// A limit that leaves NaN as it is: x86 answers with the second operand where one is NaN; NEON and Highway's scalar
// target answer with the one that is a number.
static HWY_INLINE Floats AtLeast(Floats low, Floats x) {
#if HWY_TARGET <= HWY_SSSE3
  return hn::Max(low, x);
#else
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}
static HWY_INLINE Floats AtMost(Floats high, Floats x) {
#if HWY_TARGET <= HWY_SSSE3
  return hn::Min(high, x);
#else
  return hn::IfThenElse(hn::Gt(x, high), high, x);
#endif
}

// a · b + c, rounded once; without such an instruction, with an error far below that of a · b.
static HWY_INLINE Floats MulAddOnce(Floats a, Floats b, Floats c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  // Upper halves of 12 bits, whose product is exact.
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const Floats upper = hn::BitCast(d, hn::Set(du, 0xfffff000u));
  const Floats ah = hn::And(a, upper), bh = hn::And(b, upper), al = hn::Sub(a, ah), bl = hn::Sub(b, bh);
  const Floats small = hn::Add(hn::Add(hn::Mul(ah, bl), hn::Mul(al, bh)), hn::Mul(al, bl));
  return hn::Add(hn::Add(hn::Mul(ah, bh), c), small);
#endif
}

// c0 + c1 · x + … + c5 · x⁵ in pairs of terms, which wait less for each other than one after the other.
struct Quintic {
  float c0, c1, c2, c3, c4, c5;

  HWY_INLINE Floats operator()(Floats x) const {
    const FloatTag d;
    const Floats square = hn::Mul(x, x);
    Floats y = hn::MulAdd(x, hn::Set(d, c5), hn::Set(d, c4));
    y = hn::MulAdd(y, square, hn::MulAdd(x, hn::Set(d, c3), hn::Set(d, c2)));
    return hn::MulAdd(y, square, hn::MulAdd(x, hn::Set(d, c1), hn::Set(d, c0)));
  }
};

// e^x = (1 + r · q) · 2^n, n whole and r within half of log 2; where kNegated, e^-x with r's sign turned. `bits` has
// n + 127, the exponent of 2^n, in its lowest bits. `low` is what the rounding of x left out.
struct ExpParts {
  Floats r, q;
  hn::Vec<hn::RebindToSigned<FloatTag>> bits;
};
template <bool kNegated = false, class... Low>
static HWY_INLINE ExpParts SplitExp(Floats x, Low... low) {
  const FloatTag d;
  constexpr float kSign = kNegated ? -1.0f : 1.0f;
  // Adding 1.5 · 2^23 rounds to a whole number.
  const Floats whole = hn::Set(d, 12582912.0f + 127);
  const Floats shifted = hn::MulAdd(x, hn::Set(d, kSign * 1.44269504088896341f), whole);
  const Floats n = hn::Sub(shifted, whole);
  Floats r = hn::MulAdd(n, hn::Set(d, -kSign * 0.693145751953125f), x);
  r = hn::MulAdd(n, hn::Set(d, -kSign * 1.42860677e-6f), r);
  if constexpr (sizeof...(low) != 0) r = hn::Add(r, low...);
  const Floats q = Quintic{
      1.0f, kSign * 0.5f, 1.666651964e-01f, kSign * 4.166620970e-02f, 8.368825540e-03f, kSign * 1.395027153e-03f}(r);
  return {r, q, hn::BitCast(hn::RebindToSigned<FloatTag>(), shifted)};
}

// A number whose exponent field is the lowest bits: 2^(those − 127).
static HWY_INLINE Floats PowerOfLowestBits(hn::Vec<hn::RebindToSigned<FloatTag>> bits) {
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(bits));
}

// e^x for x in [-87.3, 88], where it is a normal number; NaN stays NaN.
static HWY_INLINE Floats ExpInRange(Floats x) {
  auto [r, q, bits] = SplitExp(x);
  return hn::Mul(hn::MulAdd(r, q, hn::Set(FloatTag(), 1.0f)), PowerOfLowestBits(bits));
}

static HWY_INLINE Floats Exp(Floats x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  // Beyond this the result is infinity.
  const Floats high = hn::Set(d, 88.7228394f);
  Floats clamped = hn::Min(hn::Max(x, hn::Set(d, -104.0f)), hn::Set(d, 89.0f));
  auto [r, q, bits] = SplitExp(clamped);
  const Floats p = hn::MulAdd(r, q, hn::Set(d, 1.0f));
  // Two factors, so that results near the ends of the range do not overflow on the way or lose their subnormals.
  auto whole = hn::Sub(bits, hn::Set(di, 0x4B400000 + 127));
  auto half = hn::ShiftRight<1>(whole);
  Floats result = hn::Mul(hn::Mul(p, PowerOfTwo(half)), PowerOfTwo(hn::Sub(whole, half)));
  result = hn::IfThenElse(hn::Gt(x, high), hn::Set(d, __builtin_inff()), result);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

// y / (1 + e^-x) for x down to -88.3; e^-60 and what is below it is nothing beside 1.
template <class... Low>
static HWY_INLINE Floats DivideByExpPlusOne(Floats y, Floats x, Low... low) {
  const FloatTag d;
  auto [r, q, bits] = SplitExp<true>(AtMost(hn::Set(d, 60.0f), x), low...);
  const Floats power = PowerOfLowestBits(bits);
  // e^-x is never rounded by itself.
  return hn::Div(y, hn::Add(hn::NegMulAdd(hn::Mul(power, r), q, hn::Set(d, 1.0f)), power));
}

// Below this sigmoids are under the smallest normal number, and e^-x is about to overflow.
static constexpr float kLeastSigmoidArgument = -88.3f;

static HWY_INLINE Floats Sigmoid(Floats x) {
  const FloatTag d;
  return DivideByExpPlusOne(hn::Set(d, 1.0f), AtLeast(hn::Set(d, kLeastSigmoidArgument), x));
}

// x · sigmoid(x)
static HWY_INLINE Floats Silu(Floats x) {
  const Floats limited = AtLeast(hn::Set(FloatTag(), kLeastSigmoidArgument), x);
  return DivideByExpPlusOne(limited, limited);
}

static HWY_INLINE Floats Tanh(Floats x) {
  const FloatTag d;
  Floats a = hn::Abs(x);
  // Small arguments by an odd polynomial, where 1 - 2/(e^2x + 1) would cancel.
  Floats s = hn::Mul(x, x);
  Floats p = hn::Set(d, -5.721637513e-03f);
  p = hn::MulAdd(p, s, hn::Set(d, 2.065522596e-02f));
  p = hn::MulAdd(p, s, hn::Set(d, -5.374514684e-02f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.333151460e-01f));
  p = hn::MulAdd(p, s, hn::Set(d, -3.333328366e-01f));
  Floats near = hn::MulAdd(hn::Mul(p, s), x, x);
  const Floats missing = DivideByExpPlusOne(hn::Set(d, 2.0f), hn::Mul(hn::Set(d, -2.0f), AtMost(hn::Set(d, 20.0f), a)));
  Floats far = hn::CopySign(hn::Sub(hn::Set(d, 1.0f), missing), x);
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625f)), near, far);
}

// erf(x) = x + x·p(x²) near zero and 1 - exp(q(|x|)) beyond, q fitted to log(erfc).
static HWY_INLINE Floats Erf(Floats x) {
  const FloatTag d;
  Floats a = hn::Min(hn::Abs(x), hn::Set(d, 4.0f));
  Floats s = hn::Mul(a, a);
  Floats p = hn::Set(d, -5.976895918e-04f);
  p = hn::MulAdd(p, s, hn::Set(d, 4.990980960e-03f));
  p = hn::MulAdd(p, s, hn::Set(d, -2.676556818e-02f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.128180251e-01f));
  p = hn::MulAdd(p, s, hn::Set(d, -3.761249483e-01f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.283791512e-01f));
  Floats near = hn::MulAdd(p, a, a);
  Floats q = hn::Set(d, -2.116183168e-05f);
  q = hn::MulAdd(q, a, hn::Set(d, 4.352180695e-04f));
  q = hn::MulAdd(q, a, hn::Set(d, -4.174639471e-03f));
  q = hn::MulAdd(q, a, hn::Set(d, 2.512861602e-02f));
  q = hn::MulAdd(q, a, hn::Set(d, -1.082939357e-01f));
  q = hn::MulAdd(q, a, hn::Set(d, -6.333346367e-01f));
  q = hn::MulAdd(q, a, hn::Set(d, -1.129520774e+00f));
  q = hn::MulAdd(q, a, hn::Set(d, 1.758734579e-04f));
  Floats far = hn::Sub(hn::Set(d, 1.0f), Exp(q));
  Floats magnitude = hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.92f)), near, far);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(magnitude, x));
}

}  // namespace ferry::FERRY_ISA

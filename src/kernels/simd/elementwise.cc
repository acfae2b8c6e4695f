#include "kernels/elementwise.h"

#include "kernels/simd/target.h"

namespace ferry::FERRY_ISA {
namespace {

constexpr int64_t kStep = static_cast<int64_t>(kLanes);

HWY_INLINE Floats Larger(Floats a, Floats b) { return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Gt(a, b)), a, b); }
HWY_INLINE Floats Smaller(Floats a, Floats b) { return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Lt(a, b)), a, b); }

template <BinaryKind kKind>
HWY_INLINE Floats Combine(Floats a, Floats b) {
  switch (kKind) {
    case BinaryKind::kAdd: return hn::Add(a, b);
    case BinaryKind::kSubtract: return hn::Sub(a, b);
    case BinaryKind::kMultiply: return hn::Mul(a, b);
    case BinaryKind::kDivide: return hn::Div(a, b);
    case BinaryKind::kMax: return Larger(a, b);
    case BinaryKind::kMin: return Smaller(a, b);
  }
}

// y[i] = f(load(i)) for all i, whole vectors first; load(i, mask) reads what is left.
template <class Load, class Part>
HWY_INLINE void ForAll(int64_t count, float* y, const Load& load, const Part& part) {
  const FloatTag d;
  int64_t i = 0;
  for (; i + 2 * kStep <= count; i += 2 * kStep) {
    Floats first = load(i), second = load(i + kStep);
    hn::StoreU(first, d, y + i);
    hn::StoreU(second, d, y + i + kStep);
  }
  for (; i + kStep <= count; i += kStep) hn::StoreU(load(i), d, y + i);
  if (i < count) {
    FloatMask mask = hn::FirstN(d, static_cast<size_t>(count - i));
    StoreWhere(part(i, mask), mask, d, y + i);
  }
}

template <BinaryKind kKind>
HWY_NOINLINE void BinaryLoop(const float* a, bool a_advances, const float* b, bool b_advances, float* y,
                             int64_t count) {
  const FloatTag d;
  if (a_advances && b_advances)
    return ForAll(
        count, y, [&](int64_t i) { return Combine<kKind>(hn::LoadU(d, a + i), hn::LoadU(d, b + i)); },
        [&](int64_t i, FloatMask mask) {
          return Combine<kKind>(LoadWhere(mask, d, a + i), LoadWhere(mask, d, b + i));
        });
  const Floats fixed = hn::Set(d, a_advances ? *b : *a);
  if (a_advances)
    return ForAll(
        count, y, [&](int64_t i) { return Combine<kKind>(hn::LoadU(d, a + i), fixed); },
        [&](int64_t i, FloatMask mask) { return Combine<kKind>(LoadWhere(mask, d, a + i), fixed); });
  if (b_advances)
    return ForAll(
        count, y, [&](int64_t i) { return Combine<kKind>(fixed, hn::LoadU(d, b + i)); },
        [&](int64_t i, FloatMask mask) { return Combine<kKind>(fixed, LoadWhere(mask, d, b + i)); });
  const Floats same = Combine<kKind>(fixed, hn::Set(d, *b));
  ForAll(
      count, y, [&](int64_t) { return same; }, [&](int64_t, FloatMask) { return same; });
}

void Binary(BinaryKind kind, const float* a, bool a_advances, const float* b, bool b_advances, float* y,
            int64_t count) {
  switch (kind) {
    case BinaryKind::kAdd: return BinaryLoop<BinaryKind::kAdd>(a, a_advances, b, b_advances, y, count);
    case BinaryKind::kSubtract: return BinaryLoop<BinaryKind::kSubtract>(a, a_advances, b, b_advances, y, count);
    case BinaryKind::kMultiply: return BinaryLoop<BinaryKind::kMultiply>(a, a_advances, b, b_advances, y, count);
    case BinaryKind::kDivide: return BinaryLoop<BinaryKind::kDivide>(a, a_advances, b, b_advances, y, count);
    case BinaryKind::kMax: return BinaryLoop<BinaryKind::kMax>(a, a_advances, b, b_advances, y, count);
    case BinaryKind::kMin: return BinaryLoop<BinaryKind::kMin>(a, a_advances, b, b_advances, y, count);
  }
}

// x = m · 2^e with m around 1, and log(m) = f − f²/2 + f³·p(f) for f = m − 1.
HWY_INLINE Floats Log(Floats x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const Floats smallest = hn::Set(d, 1.17549435e-38f), infinity = hn::Set(d, __builtin_inff());
  const FloatMask subnormal = hn::Lt(x, smallest);
  Floats scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
  auto bits = hn::BitCast(di, scaled);
  auto whole = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  Floats m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(whole)));
  Floats e = hn::Sub(hn::ConvertTo(d, whole), hn::IfThenElseZero(subnormal, hn::Set(d, 23.0f)));
  Floats f = hn::Sub(m, hn::Set(d, 1.0f));
  Floats p = hn::Set(d, -7.902743667e-02f);
  p = hn::MulAdd(p, f, hn::Set(d, 1.262231916e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, -1.299818307e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.421449631e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, -1.664128155e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.000104487e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, -2.500030696e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, 3.333333135e-01f));
  Floats square = hn::Mul(f, f);
  Floats result = hn::MulAdd(e, hn::Set(d, 1.42860677e-6f), hn::Mul(hn::Mul(p, f), square));
  result = hn::Add(hn::MulAdd(square, hn::Set(d, -0.5f), result), f);
  result = hn::MulAdd(e, hn::Set(d, 0.693145751953125f), result);
  result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
  result = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), result);
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Lt(x, hn::Zero(d))), hn::Set(d, __builtin_nanf("")), result);
}

template <UnaryKind kKind>
HWY_INLINE Floats Apply(Floats x) {
  switch (kKind) {
    case UnaryKind::kNegate: return hn::Neg(x);
    case UnaryKind::kAbs: return hn::Abs(x);
    case UnaryKind::kSqrt: return hn::Sqrt(x);
    case UnaryKind::kReciprocal: return hn::Div(hn::Set(FloatTag(), 1.0f), x);
    case UnaryKind::kSquare: return hn::Mul(x, x);
    case UnaryKind::kCube: return hn::Mul(hn::Mul(x, x), x);
    case UnaryKind::kLog: return Log(x);
    case UnaryKind::kFloor: return hn::Floor(x);
    case UnaryKind::kCeil: return hn::Ceil(x);
  }
}

template <UnaryKind kKind>
HWY_NOINLINE void UnaryLoop(const float* x, float* y, int64_t count) {
  const FloatTag d;
  ForAll(
      count, y, [&](int64_t i) { return Apply<kKind>(hn::LoadU(d, x + i)); },
      [&](int64_t i, FloatMask mask) { return Apply<kKind>(LoadWhere(mask, d, x + i)); });
}

void Unary(UnaryKind kind, const float* x, float* y, int64_t count) {
  switch (kind) {
    case UnaryKind::kNegate: return UnaryLoop<UnaryKind::kNegate>(x, y, count);
    case UnaryKind::kAbs: return UnaryLoop<UnaryKind::kAbs>(x, y, count);
    case UnaryKind::kSqrt: return UnaryLoop<UnaryKind::kSqrt>(x, y, count);
    case UnaryKind::kReciprocal: return UnaryLoop<UnaryKind::kReciprocal>(x, y, count);
    case UnaryKind::kSquare: return UnaryLoop<UnaryKind::kSquare>(x, y, count);
    case UnaryKind::kCube: return UnaryLoop<UnaryKind::kCube>(x, y, count);
    case UnaryKind::kLog: return UnaryLoop<UnaryKind::kLog>(x, y, count);
    case UnaryKind::kFloor: return UnaryLoop<UnaryKind::kFloor>(x, y, count);
    case UnaryKind::kCeil: return UnaryLoop<UnaryKind::kCeil>(x, y, count);
  }
}

// Σ of what `term` makes of vectors, in blocks so short that each lane adds 64 numbers.
template <class Term>
HWY_INLINE double SumOf(const float* x, int64_t count, const Term& term) {
  const FloatTag d;
  constexpr int64_t kBlock = 4 * 64 * kStep;
  double total = 0;
  int64_t i = 0;
  while (i + 4 * kStep <= count) {
    const int64_t end = count - i < kBlock ? count : i + kBlock;
    Floats sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (; i + 4 * kStep <= end; i += 4 * kStep)
      for (int v = 0; v < 4; ++v) sums[v] = hn::Add(sums[v], term(hn::LoadU(d, x + i + v * kStep)));
    total += static_cast<double>(
        hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])))));
  }
  for (; i < count; ++i) total += static_cast<double>(hn::GetLane(term(hn::Set(d, x[i]))));
  return total;
}

double Sum(const float* x, int64_t count) {
  return SumOf(x, count, [](Floats value) { return value; });
}

double Squares(const float* x, float center, int64_t count) {
  const Floats middle = hn::Set(FloatTag(), center);
  return SumOf(x, count, [&](Floats value) {
    Floats apart = hn::Sub(value, middle);
    return hn::Mul(apart, apart);
  });
}

void Standardize(const float* x, float center, float factor, float offset, float* y, int64_t count) {
  const FloatTag d;
  const Floats middle = hn::Set(d, center), stretch = hn::Set(d, factor), shift = hn::Set(d, offset);
  auto apply = [&](Floats value) { return hn::MulAdd(hn::Sub(value, middle), stretch, shift); };
  ForAll(
      count, y, [&](int64_t i) { return apply(hn::LoadU(d, x + i)); },
      [&](int64_t i, FloatMask mask) { return apply(LoadWhere(mask, d, x + i)); });
}

template <BinaryKind kKind>
HWY_INLINE float ExtremeOf(const float* x, int64_t count) {
  const FloatTag d;
  float best = x[0];
  int64_t i = 0;
  if (count >= kStep) {
    Floats wide = hn::LoadU(d, x);
    for (i = kStep; i + kStep <= count; i += kStep) wide = Combine<kKind>(wide, hn::LoadU(d, x + i));
    HWY_ALIGN float lanes[kLanes];
    hn::Store(wide, d, lanes);
    best = lanes[0];
    for (size_t lane = 1; lane < kLanes; ++lane)
      if (lanes[lane] != lanes[lane] || (kKind == BinaryKind::kMax ? lanes[lane] > best : lanes[lane] < best))
        best = lanes[lane];
  }
  for (; i < count; ++i)
    if (x[i] != x[i] || (kKind == BinaryKind::kMax ? x[i] > best : x[i] < best)) best = x[i];
  return best;
}

float Extreme(BinaryKind kind, const float* x, int64_t count) {
  return kind == BinaryKind::kMax ? ExtremeOf<BinaryKind::kMax>(x, count) : ExtremeOf<BinaryKind::kMin>(x, count);
}

void Extremes(BinaryKind kind, const float* x, int64_t rows, int64_t columns, float* y) {
  for (int64_t i = 0; i < columns; ++i) y[i] = x[i];
  for (int64_t row = 1; row < rows; ++row) Binary(kind, y, true, x + row * columns, true, y, columns);
}

using IntTag = hn::RebindToSigned<FloatTag>;
using Ints = hn::Vec<IntTag>;
using HalfTag = hn::Rebind<uint16_t, FloatTag>;

// No float in here is subnormal: a processor that is told to may take those as zeros.
HWY_INLINE Floats Widen(hn::Vec<HalfTag> halves) {
  const IntTag d;
  const Ints bits = hn::PromoteTo(d, halves), magnitude = hn::And(bits, hn::Set(d, 0x7fff));
  const Ints sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d, 0x8000))), bias = hn::Set(d, (127 - 15) << 23);
  const Ints normal = hn::Add(hn::ShiftLeft<13>(magnitude), bias);
  const Floats tiny = hn::Mul(hn::ConvertTo(FloatTag(), magnitude), hn::Set(FloatTag(), 0x1p-24f));
  Ints number = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x3ff)), normal, hn::BitCast(d, tiny));
  number = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7bff)), hn::Add(normal, bias), number);  // infinity and NaN
  return hn::BitCast(FloatTag(), hn::Or(sign, number));
}

HWY_INLINE hn::Vec<HalfTag> Narrow(Floats floats) {
  constexpr int32_t kBeyond = (127 + 16) << 23, kLeastNormal = (127 - 14) << 23;
  constexpr int32_t kAligning = ((127 - 15) + (23 - 10) + 1) << 23;  // its last bit is that of a subnormal half
  const IntTag d;
  const Ints bits = hn::BitCast(d, floats), magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
  const Ints sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000));
  const Ints odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
  const Ints normal = hn::ShiftRight<13>(hn::Add(hn::Sub(magnitude, hn::Set(d, ((127 - 15) << 23) - 0xfff)), odd));
  const Floats aligned = hn::Add(hn::BitCast(FloatTag(), magnitude), hn::BitCast(FloatTag(), hn::Set(d, kAligning)));
  const Ints tiny = hn::Sub(hn::BitCast(d, aligned), hn::Set(d, kAligning));
  const Ints infinite =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7f800000)), hn::Set(d, 0x7e00), hn::Set(d, 0x7c00));
  Ints code = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, kLeastNormal)), tiny, normal);
  code = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, kBeyond - 1)), infinite, code);
  return hn::DemoteTo(HalfTag(), hn::Or(sign, code));
}

// Whole vectors, then what is left by way of a vector's room.
template <class From, class To, class Convert>
HWY_INLINE void ConvertAll(const From* x, To* y, int64_t count, const Convert& convert) {
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) convert(x + i, y + i);
  if (i == count) return;
  HWY_ALIGN From from[kLanes] = {};
  HWY_ALIGN To to[kLanes];
  const auto rest = static_cast<size_t>(count - i);  // which may lie at any byte
  __builtin_memcpy(from, x + i, rest * sizeof(From));
  convert(from, to);
  __builtin_memcpy(y + i, to, rest * sizeof(To));
}

void WidenHalves(const uint16_t* x, float* y, int64_t count) {
  ConvertAll(x, y, count,
             [](const uint16_t* from, float* to) { hn::StoreU(Widen(hn::LoadU(HalfTag(), from)), FloatTag(), to); });
}

void NarrowToHalves(const float* x, uint16_t* y, int64_t count) {
  ConvertAll(x, y, count,
             [](const float* from, uint16_t* to) { hn::StoreU(Narrow(hn::LoadU(FloatTag(), from)), HalfTag(), to); });
}

}  // namespace

extern const ElementwiseKernels kElementwiseKernels;
const ElementwiseKernels kElementwiseKernels = {Binary,  Unary,    Sum,         Squares,       Standardize,
                                                Extreme, Extremes, WidenHalves, NarrowToHalves};

}  // namespace ferry::FERRY_ISA

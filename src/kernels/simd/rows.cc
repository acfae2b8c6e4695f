#include "kernels/row_kernels.h"
#include "kernels/simd/activation-inl.h"

namespace ferry::FERRY_ISA {
namespace {

constexpr int64_t kStep = static_cast<int64_t>(kLanes);

HWY_INLINE Floats LoadPart(const float* from, int64_t count) {
  const FloatTag d;
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
}

HWY_INLINE void StorePart(Floats x, float* to, int64_t count) {
  const FloatTag d;
  hn::BlendedStore(x, hn::FirstN(d, static_cast<size_t>(count)), d, to);
}

template <class F>
HWY_INLINE void MapRow(const float* x, float* y, int64_t count, const F& f) {
  const FloatTag d;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) hn::StoreU(f(hn::LoadU(d, x + i)), d, y + i);
  if (i < count) StorePart(f(LoadPart(x + i, count - i)), y + i, count - i);
}

void ActivateRow(const Activation& activation, const float* x, float* y, int64_t count) {
  const FloatTag d;
  const Floats alpha = hn::Set(d, activation.alpha), beta = hn::Set(d, activation.beta);
  WithActivation(activation.kind, [&]<ActivationKind kKind>() {
    MapRow(x, y, count, [&](Floats v) { return Activate<kKind>(v, alpha, beta); });
  });
}

void ExpRow(const float* x, float* y, int64_t count) {
  MapRow(x, y, count, [](Floats v) { return Exp(v); });
}

void ErfRow(const float* x, float* y, int64_t count) {
  MapRow(x, y, count, [](Floats v) { return Erf(v); });
}

// Σ term(x), in four sums so that additions need not wait for each other. Terms beyond the end must be left out by
// mask.
template <class F>
HWY_INLINE float SumOver(const float* x, int64_t count, const F& term) {
  const FloatTag d;
  Floats sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + 4 * kStep <= count; i += 4 * kStep)
    for (int v = 0; v < 4; ++v) sums[v] = hn::Add(sums[v], term(hn::LoadU(d, x + i + v * kStep)));
  for (; i + kStep <= count; i += kStep) sums[0] = hn::Add(sums[0], term(hn::LoadU(d, x + i)));
  if (i < count) {
    FloatMask mask = hn::FirstN(d, static_cast<size_t>(count - i));
    sums[1] = hn::Add(sums[1], hn::IfThenElseZero(mask, term(hn::MaskedLoad(mask, d, x + i))));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

void Normalize(const NormalizeRow& row) {
  const FloatTag d;
  const float inverse_count = 1.0f / static_cast<float>(row.count);
  float mean = row.centered ? SumOver(row.x, row.count, [](Floats v) { return v; }) * inverse_count : 0.0f;
  const Floats center = hn::Set(d, mean);
  float squares = SumOver(row.x, row.count, [&](Floats v) {
    Floats off = hn::Sub(v, center);
    return hn::Mul(off, off);
  });
  const Floats factor = hn::Set(d, 1.0f / __builtin_sqrtf(squares * inverse_count + row.epsilon));
  auto one = [&](Floats x, Floats scale, Floats bias) {
    return hn::MulAdd(hn::Mul(hn::Sub(x, center), factor), scale, bias);
  };
  int64_t i = 0;
  for (; i + kStep <= row.count; i += kStep) {
    Floats bias = row.bias ? hn::LoadU(d, row.bias + i) : hn::Zero(d);
    hn::StoreU(one(hn::LoadU(d, row.x + i), hn::LoadU(d, row.scale + i), bias), d, row.y + i);
  }
  if (int64_t rest = row.count - i; rest > 0) {
    Floats bias = row.bias ? LoadPart(row.bias + i, rest) : hn::Zero(d);
    StorePart(one(LoadPart(row.x + i, rest), LoadPart(row.scale + i, rest), bias), row.y + i, rest);
  }
}

// exp of what is at most zero; below the smallest normal number it is zero.
HWY_INLINE Floats ExpOfNegative(Floats x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const Floats low = hn::Set(d, -87.3f);
  Floats clamped = hn::Max(x, low);
  auto [p, n] = SplitExp(clamped);
  return hn::IfThenZeroElse(hn::Lt(x, low), hn::Mul(p, PowerOfTwo(hn::ConvertTo(di, n))));
}

void Fill(float* y, int64_t count, float value) {
  for (int64_t i = 0; i < count; ++i) y[i] = value;
}

// y = x · scale + mask, and the largest of it; NaN when there is a NaN or nothing but −∞.
HWY_INLINE float ScaleAndFindLargest(const SoftmaxRow& row) {
  const FloatTag d;
  const Floats scale = hn::Set(d, row.scale), none = hn::Set(d, -__builtin_inff());
  Floats largest = none;
  FloatMask has_nan = hn::FirstN(d, 0);
  int64_t i = 0;
  for (; i + kStep <= row.count; i += kStep) {
    Floats x = hn::LoadU(d, row.x + i);
    x = row.mask ? hn::MulAdd(x, scale, hn::LoadU(d, row.mask + i)) : hn::Mul(x, scale);
    has_nan = hn::Or(has_nan, hn::IsNaN(x));
    largest = hn::Max(largest, x);
    hn::StoreU(x, d, row.y + i);
  }
  if (int64_t rest = row.count - i; rest > 0) {
    FloatMask there = hn::FirstN(d, static_cast<size_t>(rest));
    Floats x = LoadPart(row.x + i, rest);
    x = row.mask ? hn::MulAdd(x, scale, LoadPart(row.mask + i, rest)) : hn::Mul(x, scale);
    has_nan = hn::Or(has_nan, hn::And(there, hn::IsNaN(x)));
    largest = hn::Max(largest, hn::IfThenElse(there, x, none));
    StorePart(x, row.y + i, rest);
  }
  float found = hn::GetLane(hn::MaxOfLanes(d, largest));
  bool answers = hn::AllFalse(d, has_nan) && found > -__builtin_inff() && found < __builtin_inff();
  return answers ? found : __builtin_nanf("");
}

void Softmax(const SoftmaxRow& row) {
  const FloatTag d;
  if (row.count == 0) return;
  float largest = ScaleAndFindLargest(row);
  if (largest != largest) return Fill(row.y, row.count, row.nan_to_zero ? 0.0f : __builtin_nanf(""));
  const Floats top = hn::Set(d, largest);
  Floats sums = hn::Zero(d);
  int64_t i = 0;
  for (; i + kStep <= row.count; i += kStep) {
    Floats e = ExpOfNegative(hn::Sub(hn::LoadU(d, row.y + i), top));
    sums = hn::Add(sums, e);
    hn::StoreU(e, d, row.y + i);
  }
  if (int64_t rest = row.count - i; rest > 0) {
    FloatMask there = hn::FirstN(d, static_cast<size_t>(rest));
    Floats e = hn::IfThenElseZero(there, ExpOfNegative(hn::Sub(LoadPart(row.y + i, rest), top)));
    sums = hn::Add(sums, e);
    StorePart(e, row.y + i, rest);
  }
  const Floats factor = hn::Set(d, 1.0f / hn::GetLane(hn::SumOfLanes(d, sums)));
  MapRow(row.y, row.y, row.count, [&](Floats e) { return hn::Mul(e, factor); });
}

// Rows are added four at a time, so that y passes through the registers a quarter as often.
void Combine(const float* weights, int64_t depth, const float* rows, int64_t stride, float* y, int64_t count) {
  const FloatTag d;
  Fill(y, count, 0.0f);
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4) {
    const float* r = rows + k * stride;
    const Floats w0 = hn::Set(d, weights[k]), w1 = hn::Set(d, weights[k + 1]), w2 = hn::Set(d, weights[k + 2]),
                 w3 = hn::Set(d, weights[k + 3]);
    int64_t i = 0;
    for (; i + kStep <= count; i += kStep) {
      Floats sum = hn::MulAdd(w0, hn::LoadU(d, r + i), hn::LoadU(d, y + i));
      sum = hn::MulAdd(w1, hn::LoadU(d, r + stride + i), sum);
      sum = hn::MulAdd(w2, hn::LoadU(d, r + 2 * stride + i), sum);
      hn::StoreU(hn::MulAdd(w3, hn::LoadU(d, r + 3 * stride + i), sum), d, y + i);
    }
    for (; i < count; ++i)
      for (int n = 0; n < 4; ++n) y[i] += weights[k + n] * r[n * stride + i];
  }
  for (; k < depth; ++k) {
    const float* r = rows + k * stride;
    const Floats w = hn::Set(d, weights[k]);
    int64_t i = 0;
    for (; i + kStep <= count; i += kStep)
      hn::StoreU(hn::MulAdd(w, hn::LoadU(d, r + i), hn::LoadU(d, y + i)), d, y + i);
    for (; i < count; ++i) y[i] += weights[k] * r[i];
  }
}

float Dot(const float* a, const float* b, int64_t count) {
  const FloatTag d;
  Floats sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + 4 * kStep <= count; i += 4 * kStep)
    for (int v = 0; v < 4; ++v)
      sums[v] = hn::MulAdd(hn::LoadU(d, a + i + v * kStep), hn::LoadU(d, b + i + v * kStep), sums[v]);
  for (; i + kStep <= count; i += kStep) sums[0] = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums[0]);
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

extern const RowKernels kRowKernels;
const RowKernels kRowKernels = {ActivateRow, ExpRow, ErfRow, Normalize, Softmax, Combine, Dot};

}  // namespace ferry::FERRY_ISA

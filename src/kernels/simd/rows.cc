#include "kernels/row_kernels.h"
#include "kernels/simd/math-inl.h"

namespace ferry::FERRY_ISA {

void ActivateRow(const Activation& activation, const float* x, float* y, int64_t count);  // activate.cc

namespace {

constexpr int64_t kStep = static_cast<int64_t>(kLanes);

HWY_INLINE Floats LoadPart(const float* from, int64_t count) {
  const FloatTag d;
  return LoadWhere(hn::FirstN(d, static_cast<size_t>(count)), d, from);
}

HWY_INLINE void StorePart(Floats x, float* to, int64_t count) {
  const FloatTag d;
  StoreWhere(x, hn::FirstN(d, static_cast<size_t>(count)), d, to);
}

template <class F>
HWY_INLINE void MapRow(const float* x, float* y, int64_t count, const F& f) {
  const FloatTag d;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) hn::StoreU(f(hn::LoadU(d, x + i)), d, y + i);
  if (i < count) StorePart(f(LoadPart(x + i, count - i)), y + i, count - i);
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
    sums[1] = hn::Add(sums[1], hn::IfThenElseZero(mask, term(LoadWhere(mask, d, x + i))));
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

// exp of what is at most zero; below the smallest normal number it is zero. NaN stays NaN.
HWY_INLINE Floats ExpOfNegative(Floats x) {
  const Floats low = hn::Set(FloatTag(), -87.3f);
  return hn::IfThenZeroElse(hn::Lt(x, low), ExpInRange(AtLeast(low, x)));
}

void Fill(float* y, int64_t count, float value) {
  for (int64_t i = 0; i < count; ++i) y[i] = value;
}

// x · scale + mask, or what fills its place
HWY_INLINE Floats ScoreOf(const SoftmaxRow& row, Floats x, Floats mask, const uint8_t* flags, Floats scale) {
  const FloatTag d;
  if (!row.flags) return row.mask ? hn::MulAdd(x, scale, mask) : hn::Mul(x, scale);
  const hn::RebindToSigned<FloatTag> words;
  const auto flag = hn::PromoteTo(words, hn::LoadU(hn::Rebind<uint8_t, FloatTag>(), flags));
  const auto left_out = hn::RebindMask(d, hn::Eq(flag, hn::Set(words, row.flags_leave_out ? 1 : 0)));
  const Floats fill = hn::Set(d, row.fill);
  if (!row.mask) return hn::IfThenElse(left_out, fill, hn::Mul(x, scale));
  if (row.fills_before_mask) return hn::Add(hn::IfThenElse(left_out, fill, hn::Mul(x, scale)), mask);
  return hn::IfThenElse(left_out, fill, hn::MulAdd(x, scale, mask));
}
HWY_INLINE Floats Score(const SoftmaxRow& row, int64_t i, Floats scale) {
  const FloatTag d;
  return ScoreOf(row, hn::LoadU(d, row.x + i), row.mask ? hn::LoadU(d, row.mask + i) : hn::Zero(d),
                 row.flags ? reinterpret_cast<const uint8_t*>(row.flags) + i : nullptr, scale);
}
HWY_INLINE Floats ScorePart(const SoftmaxRow& row, int64_t i, Floats scale) {
  const FloatTag d;
  uint8_t flags[kStep] = {};
  if (row.flags) __builtin_memcpy(flags, row.flags + i, static_cast<size_t>(row.count - i));
  return ScoreOf(row, LoadPart(row.x + i, row.count - i),
                 row.mask ? LoadPart(row.mask + i, row.count - i) : hn::Zero(d), flags, scale);
}

// NaN may go unseen here; it shows in the sum.
HWY_INLINE float LargestScore(const SoftmaxRow& row, Floats scale) {
  const FloatTag d;
  const Floats none = hn::Set(d, -__builtin_inff());
  Floats largest = none, other = none;
  int64_t i = 0;
  for (; i + 2 * kStep <= row.count; i += 2 * kStep) {
    largest = hn::Max(largest, Score(row, i, scale));
    other = hn::Max(other, Score(row, i + kStep, scale));
  }
  for (; i + kStep <= row.count; i += kStep) largest = hn::Max(largest, Score(row, i, scale));
  if (i < row.count) {
    const FloatMask there = hn::FirstN(d, static_cast<size_t>(row.count - i));
    other = hn::Max(other, hn::IfThenElse(there, ScorePart(row, i, scale), none));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(largest, other)));
}

// The largest does not tell NaN from −∞.
HWY_INLINE bool IsEmpty(const SoftmaxRow& row, Floats scale) {
  const FloatTag d;
  for (int64_t i = 0; i < row.count; i += kStep) {
    const int64_t rest = row.count - i;
    const FloatMask there = hn::FirstN(d, static_cast<size_t>(rest < kStep ? rest : kStep));
    const Floats score = rest < kStep ? ScorePart(row, i, scale) : Score(row, i, scale);
    if (!hn::AllFalse(d, hn::And(there, hn::IsNaN(score)))) return false;
  }
  return true;
}

float Softmax(const SoftmaxRow& row) {
  const FloatTag d;
  const Floats scale = hn::Set(d, row.scale);
  const float largest = LargestScore(row, scale);
  if (row.empty_to_zero && largest == -__builtin_inff() && IsEmpty(row, scale)) {
    Fill(row.y, row.count, 0.0f);
    return 1.0f;
  }
  const Floats top = hn::Set(d, largest);
  Floats sums = hn::Zero(d);
  int64_t i = 0;
  for (; i + kStep <= row.count; i += kStep) {
    const Floats e = ExpOfNegative(hn::Sub(Score(row, i, scale), top));
    sums = hn::Add(sums, e);
    hn::StoreU(e, d, row.y + i);
  }
  if (int64_t rest = row.count - i; rest > 0) {
    const FloatMask there = hn::FirstN(d, static_cast<size_t>(rest));
    const Floats e = hn::IfThenElseZero(there, ExpOfNegative(hn::Sub(ScorePart(row, i, scale), top)));
    sums = hn::Add(sums, e);
    StorePart(e, row.y + i, rest);
  }
  // Without a number among them, or with an infinite one, the largest minus itself is no number either.
  const float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  if (!(sum > 0.0f)) {
    Fill(row.y, row.count, row.nan_to_zero ? 0.0f : __builtin_nanf(""));
    return 1.0f;
  }
  if (!row.normalize) return 1.0f / sum;
  const Floats factor = hn::Set(d, 1.0f / sum);
  MapRow(row.y, row.y, row.count, [&](Floats e) { return hn::Mul(e, factor); });
  return 1.0f;
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

void Rotate(const RotateHalves& row) {
  const FloatTag d;
  const float *cosines = row.cosines + row.second, *sines = row.sines + row.second;
  int64_t i = 0;
  for (; i + kStep <= row.half; i += kStep) {
    const Floats a = hn::LoadU(d, row.x + i), b = hn::LoadU(d, row.x + row.half + i);
    const Floats first = hn::Mul(a, hn::LoadU(d, row.cosines + i)), second = hn::Mul(b, hn::LoadU(d, cosines + i));
    hn::StoreU(hn::NegMulAdd(b, hn::LoadU(d, row.sines + i), first), d, row.y + i);
    hn::StoreU(hn::MulAdd(a, hn::LoadU(d, sines + i), second), d, row.y + row.half + i);
  }
  for (; i < row.half; ++i) {
    const float a = row.x[i], b = row.x[row.half + i];
    row.y[i] = a * row.cosines[i] - b * row.sines[i];
    row.y[row.half + i] = b * cosines[i] + a * sines[i];
  }
}

}  // namespace

extern const RowKernels kRowKernels;
const RowKernels kRowKernels = {ActivateRow, ExpRow, ErfRow, Normalize, Softmax, Combine, Dot, Rotate};

}  // namespace ferry::FERRY_ISA

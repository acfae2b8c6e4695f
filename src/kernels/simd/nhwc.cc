#include "kernels/nhwc.h"

#include "kernels/simd/depthwise.h"
#include "kernels/simd/finish-inl.h"

namespace ferry::FERRY_ISA {
namespace {

constexpr int64_t kStep = static_cast<int64_t>(kLanes);

// Calls whole(i) for every whole vector of [0, count) and rest(i, mask) for what is left.
template <class Whole, class Rest>
HWY_INLINE void ForVectors(int64_t count, const Whole& whole, const Rest& rest) {
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) whole(i);
  if (i < count) rest(i, hn::FirstN(FloatTag(), static_cast<size_t>(count - i)));
}

// The largest of load(i), i < count. A sum of all tells whether any was NaN, which then wins.
template <class Load>
HWY_INLINE Floats LargestOf(int64_t count, const Load& load) {
  const FloatTag d;
  Floats best = hn::Set(d, -__builtin_inff()), sum = hn::Zero(d);
  for (int64_t i = 0; i < count; ++i) {
    const Floats x = load(i);
    best = hn::Max(best, x);
    sum = hn::Add(sum, x);
  }
  if (HWY_LIKELY(hn::AllFalse(d, hn::IsNaN(sum)))) return best;
  best = hn::Set(d, -__builtin_inff());
  for (int64_t i = 0; i < count; ++i) {
    const Floats x = load(i);
    best = hn::IfThenElse(hn::Or(hn::Gt(x, best), hn::IsNaN(x)), x, best);
  }
  return best;
}

void Largest(const float* const* pixels, int64_t count, int64_t channels, float* to) {
  const FloatTag d;
  ForVectors(
      channels,
      [&](int64_t c) {
        hn::StoreU(LargestOf(count, [&](int64_t i) { return hn::LoadU(d, pixels[i] + c); }), d, to + c);
      },
      [&](int64_t c, FloatMask mask) {
        auto load = [&](int64_t i) { return LoadWhere(mask, d, pixels[i] + c); };
        StoreWhere(LargestOf(count, load), mask, d, to + c);
      });
}

void ScaledSum(const float* const* pixels, int64_t count, int64_t channels, float scale, float* to) {
  const FloatTag d;
  const Floats factor = hn::Set(d, scale);
  ForVectors(
      channels,
      [&](int64_t c) {
        Floats sum = hn::Zero(d);
        for (int64_t i = 0; i < count; ++i) sum = hn::Add(sum, hn::LoadU(d, pixels[i] + c));
        hn::StoreU(hn::Mul(sum, factor), d, to + c);
      },
      [&](int64_t c, FloatMask mask) {
        Floats sum = hn::Zero(d);
        for (int64_t i = 0; i < count; ++i) sum = hn::Add(sum, LoadWhere(mask, d, pixels[i] + c));
        StoreWhere(hn::Mul(sum, factor), mask, d, to + c);
      });
}

// Four running sums a channel: short chains of additions, small errors.
void ScaledRowSum(const float* x, int64_t count, int64_t stride, int64_t channels, float scale, float* to) {
  const FloatTag d;
  const Floats factor = hn::Set(d, scale);
  auto total = [&](const auto& load) {
    Floats s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
      s0 = hn::Add(s0, load(i));
      s1 = hn::Add(s1, load(i + 1));
      s2 = hn::Add(s2, load(i + 2));
      s3 = hn::Add(s3, load(i + 3));
    }
    for (; i < count; ++i) s0 = hn::Add(s0, load(i));
    return hn::Mul(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), factor);
  };
  ForVectors(
      channels,
      [&](int64_t c) { hn::StoreU(total([&](int64_t i) { return hn::LoadU(d, x + i * stride + c); }), d, to + c); },
      [&](int64_t c, FloatMask mask) {
        StoreWhere(total([&](int64_t i) { return LoadWhere(mask, d, x + i * stride + c); }), mask, d, to + c);
      });
}

void Affine(const float* x, int64_t stride, int64_t count, int64_t channels, const float* factor, const float* offset,
            const Activation& activation, float* to) {
  const FloatTag d;
  const Limits limits(activation);
  for (int64_t i = 0; i < count; ++i, x += stride, to += channels)
    ForVectors(
        channels,
        [&](int64_t c) {
          Floats shift = offset ? hn::LoadU(d, offset + c) : hn::Zero(d);
          Floats y = hn::MulAdd(hn::LoadU(d, x + c), hn::LoadU(d, factor + c), shift);
          hn::StoreU(limits.Apply(y), d, to + c);
        },
        [&](int64_t c, FloatMask mask) {
          Floats shift = offset ? LoadWhere(mask, d, offset + c) : hn::Zero(d);
          Floats y = hn::MulAdd(LoadWhere(mask, d, x + c), LoadWhere(mask, d, factor + c), shift);
          StoreWhere(limits.Apply(y), mask, d, to + c);
        });
  if (!IsLimit(activation.kind)) ActivateSpan(activation, to - count * channels, count * channels);
}

void Interleave(const float* a, const float* b, int64_t count, float* to) {
  const FloatTag d;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) hn::StoreInterleaved2(hn::LoadU(d, a + i), hn::LoadU(d, b + i), d, to + 2 * i);
  for (; i < count; ++i) to[2 * i] = a[i], to[2 * i + 1] = b[i];
}

void Interleave3(const float* a, const float* b, const float* c, int64_t count, float* to) {
  const FloatTag d;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep)
    hn::StoreInterleaved3(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i), d, to + 3 * i);
  for (; i < count; ++i) to[3 * i] = a[i], to[3 * i + 1] = b[i], to[3 * i + 2] = c[i];
}

}  // namespace

extern const NhwcKernels kNhwcKernels;
const NhwcKernels kNhwcKernels = {Depthwise,     kDepthwisePixels, Grouped,      kStep,      Planar,
                                  kWidestPlanar, &kWinograd2,      &kWinograd4,  Largest,    ScaledSum,
                                  ScaledRowSum,  Affine,           ActivateSpan, Interleave, Interleave3};

}  // namespace ferry::FERRY_ISA

#include "kernels/int8_nhwc.h"

#include "kernels/simd/int8_tile-inl.h"

namespace ferry::FERRY_ISA {
namespace {

constexpr int64_t kStep = static_cast<int64_t>(kLanes);

#if HWY_TARGET == HWY_SCALAR

void Depthwise(const ferry::Int8Depthwise& conv) {
  const IntTag d;
  for (int64_t pixel = 0; pixel < conv.pixels; ++pixel)
    for (int64_t c = 0; c < conv.channels; ++c) {
      int32_t sum = 0;
      for (int64_t tap = 0; tap < 2 * conv.pairs; ++tap)
        sum += static_cast<uint8_t>(conv.taps[pixel * 2 * conv.pairs + tap][c] ^ conv.flip) *
               conv.weights[tap * conv.channels + c];
      FinishSums(d, hn::Set(d, sum), conv.out, pixel, c, 1);
    }
}

#else

using ShortTag = hn::CappedTag<int16_t, 16>;
using ByteTag = hn::Rebind<uint8_t, ShortTag>;
using SumTag = hn::RepartitionToWide<ShortTag>;
using Shorts = hn::Vec<ShortTag>;
constexpr int64_t kChannels = hn::MaxLanes(ShortTag());

struct Pair {
  Shorts low, high;
};

HWY_INLINE Pair Interleave(Shorts a, Shorts b) {
  const ShortTag d16;
  return {hn::InterleaveLower(d16, a, b), hn::InterleaveUpper(d16, a, b)};
}

// The bytes of a tap as 16-bit integers; signed ones are made unsigned.
template <bool kFlips>
HWY_INLINE Shorts LoadTap(const uint8_t* from) {
  const ByteTag d8;
  const auto bytes = hn::LoadU(d8, from);
  if constexpr (kFlips) return hn::PromoteTo(ShortTag(), hn::Xor(bytes, hn::Set(d8, ferry::kSignFlip)));
  return hn::PromoteTo(ShortTag(), bytes);
}

struct Sums {
  hn::Vec<SumTag> low, high, other_low, other_high;

  HWY_INLINE void Clear() { low = high = other_low = other_high = hn::Zero(SumTag()); }
  HWY_INLINE void Add(Shorts first, Shorts second, const Pair& weights) { Add(Interleave(first, second), weights); }
  HWY_INLINE void Add(const Pair& x, const Pair& weights) {
    const SumTag d;
    low = hn::ReorderWidenMulAccumulate(d, x.low, weights.low, low, other_low);
    high = hn::ReorderWidenMulAccumulate(d, x.high, weights.high, high, other_high);
  }
  // Interleaving goes by blocks of 128 bits; here channels come back in order.
  HWY_INLINE void Store(int32_t* to) const {
    const SumTag d;
    const auto first = hn::RearrangeToOddPlusEven(low, other_low),
               second = hn::RearrangeToOddPlusEven(high, other_high);
    if constexpr (hn::MaxLanes(SumTag()) == 8) {
      hn::Store(hn::ConcatLowerLower(d, second, first), d, to);
      hn::Store(hn::ConcatUpperUpper(d, second, first), d, to + 8);
    } else {
      hn::Store(first, d, to);
      hn::Store(second, d, to + hn::MaxLanes(SumTag()));
    }
  }
};

HWY_INLINE Pair LoadWeights(const ferry::Int8Depthwise& conv, int64_t pair, int64_t channel) {
  const ShortTag d16;
  const int16_t* from = conv.weights + 2 * pair * conv.channels + channel;
  return Interleave(hn::LoadU(d16, from), hn::LoadU(d16, from + conv.channels));
}

// Sums of a run of pixels wait before they are finished together.
constexpr int64_t kRun = 32;
static_assert(kChannels == kTileColumns);

class WaitingSums {
 public:
  WaitingSums(const ferry::Int8Output& out, int64_t channel, int64_t channels)
      : out_(out), channel_(channel), channels_(channels) {}
  HWY_INLINE int32_t* Next() {
    if (count_ == kRun) Finish();
    return made_ + kChannels * count_++;
  }
  void Finish() {
    FinishBlock(out_, pixel_, count_, channel_, channels_, made_, kChannels);
    pixel_ += count_;
    count_ = 0;
  }

 private:
  const ferry::Int8Output& out_;
  const int64_t channel_, channels_;
  int64_t pixel_ = 0, count_ = 0;
  HWY_ALIGN int32_t made_[kRun * kChannels];
};

// kPairs = 0: any number of taps. Few taps keep their weights in registers while pixels go by.
template <int kPairs, bool kFlips>
void RunChannels(const ferry::Int8Depthwise& conv, int64_t channel) {
  WaitingSums made(conv.out, channel, kChannels);
  Pair weights[kPairs == 0 ? 1 : kPairs];
  for (int pair = 0; pair < kPairs; ++pair) weights[pair] = LoadWeights(conv, pair, channel);
  const uint8_t* const* taps = conv.taps;
  for (int64_t pixel = 0; pixel < conv.pixels; ++pixel, taps += 2 * conv.pairs) {
    Sums sums;
    sums.Clear();
    if constexpr (kPairs > 0) {
      HWY_UNROLL(8)
      for (int pair = 0; pair < kPairs; ++pair)
        sums.Add(LoadTap<kFlips>(taps[2 * pair] + channel), LoadTap<kFlips>(taps[2 * pair + 1] + channel),
                 weights[pair]);
    } else {
      for (int64_t pair = 0; pair < conv.pairs; ++pair)
        sums.Add(LoadTap<kFlips>(taps[2 * pair] + channel), LoadTap<kFlips>(taps[2 * pair + 1] + channel),
                 LoadWeights(conv, pair, channel));
    }
    sums.Store(made.Next());
  }
  made.Finish();
}

// Taps of 3×3 that slide: every column is loaded once for the three pixels that see it. Its upper two rows are a pair;
// the lowest ones make pairs with each other.
template <bool kFlips>
void RunSliding(const ferry::Int8Depthwise& conv, int64_t channel) {
  const ShortTag d16;
  WaitingSums made(conv.out, channel, kChannels);
  auto weight = [&](int tap) { return hn::LoadU(d16, conv.weights + tap * conv.channels + channel); };
  const Shorts none = hn::Zero(d16);
  const Pair weights[] = {Interleave(weight(0), weight(3)), Interleave(weight(1), weight(4)),
                          Interleave(weight(2), weight(5)), Interleave(weight(6), weight(7)),
                          Interleave(weight(8), none)};
  auto upper = [&](const uint8_t* const* column) {
    return Interleave(LoadTap<kFlips>(column[0] + channel), LoadTap<kFlips>(column[3] + channel));
  };
  const uint8_t* const* taps = conv.taps;
  for (int64_t line = 0; line < conv.pixels; line += conv.line) {
    Pair left = upper(taps), middle = upper(taps + 1);
    Shorts left_low = LoadTap<kFlips>(taps[6] + channel), middle_low = LoadTap<kFlips>(taps[7] + channel);
    for (int64_t i = 0; i < conv.line; ++i, taps += 2 * conv.pairs) {
      const Pair right = upper(taps + 2);
      const Shorts right_low = LoadTap<kFlips>(taps[8] + channel);
      Sums sums;
      sums.Clear();
      sums.Add(left, weights[0]);
      sums.Add(middle, weights[1]);
      sums.Add(right, weights[2]);
      sums.Add(Interleave(left_low, middle_low), weights[3]);
      sums.Add(Interleave(right_low, none), weights[4]);
      sums.Store(made.Next());
      left = middle, left_low = middle_low;
      middle = right, middle_low = right_low;
    }
  }
  made.Finish();
}

void RunFew(const ferry::Int8Depthwise& conv) {
  WaitingSums made(conv.out, 0, conv.channels);
  const uint8_t* const* taps = conv.taps;
  for (int64_t pixel = 0; pixel < conv.pixels; ++pixel, taps += 2 * conv.pairs) {
    int32_t* const to = made.Next();
    for (int64_t c = 0; c < conv.channels; ++c) {
      int32_t sum = 0;
      for (int64_t tap = 0; tap < 2 * conv.pairs; ++tap)
        sum += static_cast<uint8_t>(taps[tap][c] ^ conv.flip) * conv.weights[tap * conv.channels + c];
      to[c] = sum;
    }
  }
  made.Finish();
}

#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
// Half as many channels as fill a vector, or some more: two runs of eight channels side by side, of two pixels where
// there are just eight channels, else of one pixel, of which some channels are made twice.
constexpr int64_t kHalf = kChannels / 2;

template <bool kFlips>
HWY_INLINE __m256i LoadHalves(const uint8_t* first, const uint8_t* second) {
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first)),
                high = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(second));
  __m128i both = _mm_unpacklo_epi64(low, high);
  if constexpr (kFlips) both = _mm_xor_si128(both, _mm_set1_epi8(-128));
  return _mm256_cvtepu8_epi16(both);
}

template <bool kFlips>
void RunHalves(const ferry::Int8Depthwise& conv) {
  constexpr int64_t kMostTaps = 26;
  const int64_t count = 2 * conv.pairs, shift = conv.channels - kHalf;
  const bool two_pixels = shift == 0;
  WaitingSums made(conv.out, 0, conv.channels);
  __m256i weights[kMostTaps];  // pairs of taps, the lower and the upper four channels of each half
  for (int64_t tap = 0; tap < count; tap += 2) {
    auto load = [&](int64_t number) {
      const int16_t* from = conv.weights + number * conv.channels;
      return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
                                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + shift)), 1);
    };
    const __m256i even = load(tap), odd = load(tap + 1);
    weights[tap] = _mm256_unpacklo_epi16(even, odd), weights[tap + 1] = _mm256_unpackhi_epi16(even, odd);
  }
  const uint8_t* const* taps = conv.taps;
  for (int64_t pixel = 0; pixel < conv.pixels;) {
    const bool two = two_pixels && pixel + 1 < conv.pixels;
    const uint8_t* const* other = two ? taps + count : taps;
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int64_t tap = 0; tap < count; tap += 2) {
      const __m256i even = LoadHalves<kFlips>(taps[tap], other[tap] + shift),
                    odd = LoadHalves<kFlips>(taps[tap + 1], other[tap + 1] + shift);
      low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(even, odd), weights[tap]));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(even, odd), weights[tap + 1]));
    }
    int32_t* const first = made.Next();
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(first), _mm256_permute2x128_si256(low, high, 0x20));
    if (two || !two_pixels)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(two ? made.Next() : first + shift),
                          _mm256_permute2x128_si256(low, high, 0x31));
    pixel += two ? 2 : 1;
    taps += two ? 2 * count : count;
  }
  made.Finish();
}
#endif

void Depthwise(const ferry::Int8Depthwise& conv) {
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  if (conv.channels >= kHalf && conv.channels < kChannels && conv.pairs <= 13)
    return conv.flip ? RunHalves<true>(conv) : RunHalves<false>(conv);
#endif
  if (conv.channels < kChannels) return RunFew(conv);
  for (int64_t channel = 0; channel < conv.channels; channel += kChannels) {
    // The last channels may be made twice.
    const int64_t first = channel + kChannels <= conv.channels ? channel : conv.channels - kChannels;
    if (conv.slides)
      conv.flip ? RunSliding<true>(conv, first) : RunSliding<false>(conv, first);
    else if (conv.pairs == 5)
      conv.flip ? RunChannels<5, true>(conv, first) : RunChannels<5, false>(conv, first);
    else
      conv.flip ? RunChannels<0, true>(conv, first) : RunChannels<0, false>(conv, first);
  }
}

#endif

#if HWY_TARGET == HWY_AVX2
// Adds as many as fill whole vectors and says how many; both sides are signed, or none.
template <bool kSigned>
int64_t AddWhole(const ferry::Int8Sum& sum, int64_t count) {
  constexpr int64_t kAtOnce = 4 * kStep;
  const __m256 a_factor = _mm256_set1_ps(sum.a_factor), b_factor = _mm256_set1_ps(sum.b_factor),
               added = _mm256_set1_ps(sum.added), high = _mm256_set1_ps(static_cast<float>(sum.high));
  const __m256i flip = _mm256_set1_epi16(sum.y_flip), least = _mm256_set1_epi8(static_cast<char>(sum.low + sum.y_flip));
  auto number = [](const uint8_t* from) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return _mm256_cvtepi32_ps(kSigned ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
  };
  auto whole = [&](int64_t i) {
    const __m256 second = _mm256_fmadd_ps(number(sum.b + i), b_factor, added);
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_fmadd_ps(number(sum.a + i), a_factor, second), high));
  };
  // What is too small stays so when it is converted and packed.
  auto shorts = [&](int64_t i) { return _mm256_adds_epi16(_mm256_packs_epi32(whole(i), whole(i + kStep)), flip); };
  int64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    const __m256i bytes = _mm256_max_epu8(_mm256_packus_epi16(shorts(i), shorts(i + 2 * kStep)), least);
    StoreTwoRows(bytes, sum.y_flip, sum.y + i, 2 * kStep);
  }
  return i;
}
#elif HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
template <bool kSigned>
int64_t AddWhole(const ferry::Int8Sum& sum, int64_t count) {
  constexpr int64_t kAtOnce = 4 * kStep;
  const __m512 a_factor = _mm512_set1_ps(sum.a_factor), b_factor = _mm512_set1_ps(sum.b_factor),
               added = _mm512_set1_ps(sum.added), high = _mm512_set1_ps(static_cast<float>(sum.high));
  const __m512i shift = _mm512_set1_epi16(sum.y_flip), flip = _mm512_set1_epi8(static_cast<char>(sum.y_flip)),
                least = _mm512_set1_epi8(static_cast<char>(sum.low + sum.y_flip));
  // Packing goes by blocks of 128 bits.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  auto number = [](const uint8_t* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm512_cvtepi32_ps(kSigned ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
  };
  auto whole = [&](int64_t i) {
    const __m512 second = _mm512_fmadd_ps(number(sum.b + i), b_factor, added);
    return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_fmadd_ps(number(sum.a + i), a_factor, second), high));
  };
  auto shorts = [&](int64_t i) { return _mm512_adds_epi16(_mm512_packs_epi32(whole(i), whole(i + kStep)), shift); };
  int64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    const __m512i bytes = _mm512_max_epu8(_mm512_packus_epi16(shorts(i), shorts(i + 2 * kStep)), least);
    _mm512_storeu_si512(sum.y + i, _mm512_xor_si512(_mm512_permutexvar_epi32(order, bytes), flip));
  }
  return i;
}
#endif

void Add(const ferry::Int8Sum& sum, int64_t count) {
  const FloatTag d;
  const IntTag di;
  const hn::Rebind<uint8_t, FloatTag> d8;
  const auto a_flip = hn::Set(d8, sum.a_flip), b_flip = hn::Set(d8, sum.b_flip), y_flip = hn::Set(d8, sum.y_flip);
  const Floats a_factor = hn::Set(d, sum.a_factor), b_factor = hn::Set(d, sum.b_factor), added = hn::Set(d, sum.added),
               low = hn::Set(d, static_cast<float>(sum.low)), high = hn::Set(d, static_cast<float>(sum.high));
  auto number = [&](const uint8_t* from, auto flip, uint8_t base) {
    return hn::ConvertTo(d, hn::Sub(hn::PromoteTo(di, hn::Xor(hn::LoadU(d8, from), flip)), hn::Set(di, base)));
  };
  auto levels = [&](const uint8_t* a, const uint8_t* b) {
    const Floats second = hn::MulAdd(number(b, b_flip, sum.b_flip), b_factor, added);
    const Floats value = hn::MulAdd(number(a, a_flip, sum.a_flip), a_factor, second);
    return NearestSmall(d, hn::Min(hn::Max(value, low), high), sum.y_flip);
  };
  auto bytes = [&](const uint8_t* a, const uint8_t* b) { return hn::Xor(ToBytes(di, levels(a, b)), y_flip); };
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  if (sum.a_flip == sum.b_flip) i = sum.a_flip ? AddWhole<true>(sum, count) : AddWhole<false>(sum, count);
#endif
  for (; i + kStep <= count; i += kStep) hn::StoreU(bytes(sum.a + i, sum.b + i), d8, sum.y + i);
  if (i == count) return;
  uint8_t a[64] = {}, b[64] = {};
  for (int64_t n = i; n < count; ++n) a[n - i] = sum.a[n], b[n - i] = sum.b[n];
  StorePart(d8, bytes(a, b), count - i, sum.y + i);
}

void Largest(const uint8_t* const* pixels, int64_t count, int64_t channels, uint8_t flip, uint8_t* to) {
  const hn::ScalableTag<uint8_t> d;
  constexpr int64_t kAll = hn::MaxLanes(hn::ScalableTag<uint8_t>());
  const auto flips = hn::Set(d, flip);
  int64_t c = 0;
  for (; c + kAll <= channels; c += kAll) {
    auto best = hn::Zero(d);
    for (int64_t i = 0; i < count; ++i) best = hn::Max(best, hn::Xor(hn::LoadU(d, pixels[i] + c), flips));
    hn::StoreU(hn::Xor(best, flips), d, to + c);
  }
  for (; c < channels; ++c) {
    uint8_t best = 0;
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t value = pixels[i][c] ^ flip;
      if (value > best) best = value;
    }
    to[c] = best ^ flip;
  }
}

void AddRows(const uint8_t* x, int64_t count, int64_t channels, uint8_t flip, int32_t* sums) {
  const IntTag d;
  const hn::Rebind<uint8_t, IntTag> d8;
  const auto flips = hn::Set(d8, flip);
  for (int64_t i = 0; i < count; ++i, x += channels) {
    int64_t c = 0;
    for (; c + kStep <= channels; c += kStep)
      hn::StoreU(hn::Add(hn::LoadU(d, sums + c), hn::PromoteTo(d, hn::Xor(hn::LoadU(d8, x + c), flips))), d, sums + c);
    for (; c < channels; ++c) sums[c] += static_cast<uint8_t>(x[c] ^ flip);
  }
}

}  // namespace

extern const Int8NhwcKernels kInt8NhwcKernels;
const Int8NhwcKernels kInt8NhwcKernels = {Depthwise, Add, Largest, AddRows};

}  // namespace ferry::FERRY_ISA

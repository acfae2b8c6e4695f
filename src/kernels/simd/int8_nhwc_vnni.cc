// 3×3 taps of one channel each with the instructions that multiply and add four bytes at once (AVX-512 VNNI).
#include "kernels/int8_nhwc.h"
#include "kernels/simd/target.h"

#if HWY_TARGET <= HWY_AVX3 && defined(__x86_64__)

#include <immintrin.h>

namespace ferry::FERRY_ISA {

extern const Int8NhwcKernels kInt8NhwcKernels;

namespace {

#define FERRY_VNNI __attribute__((target("avx512vnni")))

constexpr int64_t kChannels = 64;
constexpr int kParts = 4;      // vectors that hold a number for each channel
constexpr int64_t kPairs = 5;  // of 3×3 taps and one that is left

// The bytes of four taps side by side for each channel. Part p has the channels [4p, 4p + 4) of every block of 16:
// that is how bytes are interleaved, and packing the sums brings them back in order.
struct Column {
  __m512i parts[kParts];
};

HWY_INLINE Column Interleave(__m512i first, __m512i second, __m512i third, __m512i fourth) {
  const __m512i low = _mm512_unpacklo_epi8(first, second), high = _mm512_unpackhi_epi8(first, second);
  const __m512i other_low = _mm512_unpacklo_epi8(third, fourth), other_high = _mm512_unpackhi_epi8(third, fourth);
  return {{_mm512_unpacklo_epi16(low, other_low), _mm512_unpackhi_epi16(low, other_low),
           _mm512_unpacklo_epi16(high, other_high), _mm512_unpackhi_epi16(high, other_high)}};
}

// Some channels of all pixels.
struct Channels {
  int64_t first;
  __mmask64 there;

  HWY_INLINE __m512i Load(const uint8_t* from, __m512i flip) const {
    return _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, from + first), flip);
  }
  // Weights of a tap, which fit bytes.
  HWY_INLINE __m512i LoadWeights(const int16_t* from) const {
    const __m512i low = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(there), from + first);
    const __m512i high = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(there >> 32), from + first + 32);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low)), _mm512_cvtepi16_epi8(high), 1);
  }
  // Numbers of 32 bits in the order of the parts.
  HWY_INLINE void LoadNumbers(const void* from, __m512i (&to)[kParts]) const {
    __m512i blocks[kParts];
    for (int i = 0; i < kParts; ++i)
      blocks[i] = from ? _mm512_maskz_loadu_epi32(static_cast<__mmask16>(there >> (16 * i)),
                                                  static_cast<const int32_t*>(from) + first + 16 * i)
                       : _mm512_setzero_si512();
    const __m512i low01 = _mm512_shuffle_i32x4(blocks[0], blocks[1], 0x44),
                  low23 = _mm512_shuffle_i32x4(blocks[2], blocks[3], 0x44),
                  high01 = _mm512_shuffle_i32x4(blocks[0], blocks[1], 0xee),
                  high23 = _mm512_shuffle_i32x4(blocks[2], blocks[3], 0xee);
    to[0] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    to[1] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    to[2] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    to[3] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  }
};

// Turns sums into bytes as FinishSums does.
class Finisher {
 public:
  Finisher(const ferry::Int8Output& out, const Channels& channels)
      : out_(out), channels_(channels), shifted_(out.low < 0 || out.high < 0 ? 128 : 0) {
    channels.LoadNumbers(out.offset, offset_);
    channels.LoadNumbers(out.factor, factor_);
    channels.LoadNumbers(out.shift, shift_);
  }

  HWY_INLINE void Store(const __m512i (&sums)[kParts], int64_t pixel) const {
    const __m512 low = _mm512_set1_ps(static_cast<float>(out_.low - out_.zero)),
                 high = _mm512_set1_ps(static_cast<float>(out_.high - out_.zero));
    const __m512i zero = _mm512_set1_epi32(out_.zero + shifted_);
    __m512i levels[kParts];
    HWY_UNROLL(4) for (int p = 0; p < kParts; ++p) {
      const __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(sums[p], offset_[p])),
                                           _mm512_castsi512_ps(factor_[p]), _mm512_castsi512_ps(shift_[p]));
      levels[p] = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(value, low), high)), zero);
    }
    const __m512i bytes =
        _mm512_packus_epi16(_mm512_packus_epi32(levels[0], levels[1]), _mm512_packus_epi32(levels[2], levels[3]));
    _mm512_mask_storeu_epi8(static_cast<uint8_t*>(out_.c) + pixel * out_.stride + channels_.first, channels_.there,
                            _mm512_xor_si512(bytes, _mm512_set1_epi8(static_cast<char>(shifted_))));
  }

 private:
  const ferry::Int8Output& out_;
  const Channels channels_;
  const int32_t shifted_;
  __m512i offset_[kParts], factor_[kParts], shift_[kParts];
};

FERRY_VNNI HWY_INLINE void AddProducts(const Column& bytes, const Column& weights, __m512i (&sums)[kParts]) {
  HWY_UNROLL(4)
  for (int p = 0; p < kParts; ++p) sums[p] = _mm512_dpbusd_epi32(sums[p], bytes.parts[p], weights.parts[p]);
}

// Columns of taps that slide are read once for the three pixels that see them.
template <bool kSlides>
FERRY_VNNI HWY_NOINLINE void RunChannels(const ferry::Int8Depthwise& conv, const Channels& channels) {
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(conv.flip)), none = _mm512_setzero_si512();
  auto weights_of = [&](int column) {
    auto tap = [&](int64_t number) { return channels.LoadWeights(conv.weights + number * conv.channels); };
    return Interleave(tap(column), tap(column + 3), tap(column + 6), column == 0 ? tap(9) : none);
  };
  const Column weights[3] = {weights_of(0), weights_of(1), weights_of(2)};
  auto column_at = [&](const uint8_t* const* taps, int column) __attribute__((always_inline)) {
    return Interleave(channels.Load(taps[column], flip), channels.Load(taps[column + 3], flip),
                      channels.Load(taps[column + 6], flip),
                      !kSlides && column == 0 ? channels.Load(taps[9], flip) : none);
  };
  const Finisher finisher(conv.out, channels);
  const uint8_t* const* taps = conv.taps;
  Column left{}, middle{};
  for (int64_t pixel = 0, in_line = 0; pixel < conv.pixels; ++pixel, taps += 2 * kPairs) {
    if (!kSlides || in_line == 0) left = column_at(taps, 0), middle = column_at(taps, 1), in_line = conv.line;
    const Column right = column_at(taps, 2);
    __m512i sums[kParts] = {none, none, none, none};
    AddProducts(left, weights[0], sums);
    AddProducts(middle, weights[1], sums);
    AddProducts(right, weights[2], sums);
    finisher.Store(sums, pixel);
    if constexpr (kSlides) left = middle, middle = right, --in_line;
  }
}

}  // namespace

void Int8DepthwiseVnni(const ferry::Int8Depthwise& conv);
void Int8DepthwiseVnni(const ferry::Int8Depthwise& conv) {
  if (conv.pairs != kPairs || conv.out.kind != ferry::Int8Output::Kind::kBytes || conv.out.row_term)
    return kInt8NhwcKernels.depthwise(conv);
  for (int64_t channel = 0; channel < conv.channels; channel += kChannels) {
    Channels channels{channel, ~__mmask64{0}};
    if (conv.channels < kChannels)
      channels.there >>= kChannels - conv.channels;
    else if (channel + kChannels > conv.channels)
      channels.first = conv.channels - kChannels;  // some channels are made twice
    conv.slides ? RunChannels<true>(conv, channels) : RunChannels<false>(conv, channels);
  }
}

}  // namespace ferry::FERRY_ISA

#endif

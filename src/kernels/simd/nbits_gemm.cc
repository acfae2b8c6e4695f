// A row, or a panel made of floats, out of weights of 4 or 8 bits: a word of each column has several depths.
#include "kernels/nbits_gemm.h"

#include "kernels/simd/target.h"
#include "kernels/simd/unroll-inl.h"

namespace ferry::FERRY_ISA {
namespace {

constexpr int64_t kStep = static_cast<int64_t>(kLanes);
constexpr int64_t kVectors = ferry::kNbitsPanel / kStep;
using IntTag = hn::RebindToSigned<FloatTag>;
using Ints = hn::Vec<IntTag>;

HWY_INLINE Ints LoadWords(const uint32_t* from) { return hn::LoadU(IntTag(), reinterpret_cast<const int32_t*>(from)); }

// Number j of each word, with its zero point in the middle of the range.
template <int kBits>
struct Numbers {
#if HWY_TARGET <= HWY_AVX3
  static constexpr bool kByTable = kBits == 4;
#else
  static constexpr bool kByTable = false;
#endif

  HWY_INLINE Numbers() {
#if HWY_TARGET <= HWY_AVX3
    HWY_ALIGN static constexpr float kCentered[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    if constexpr (kByTable) table = hn::Load(FloatTag(), kCentered);
#endif
  }

  // What makes numbers of two's complement out of the words.
  HWY_INLINE Ints Ready(Ints words) const {
    if constexpr (kByTable) return words;
    return hn::Xor(words, hn::Set(IntTag(), static_cast<int32_t>(kBits == 4 ? 0x88888888u : 0x80808080u)));
  }

  template <int j>
  HWY_INLINE Floats At(Ints words) const {
#if HWY_TARGET <= HWY_AVX3
    // The instruction looks at the lowest four bits alone.
    if constexpr (kByTable) return Floats{_mm512_permutexvar_ps(hn::ShiftRight<kBits * j>(words).raw, table.raw)};
#endif
    return hn::ConvertTo(FloatTag(), hn::ShiftRight<32 - kBits>(hn::ShiftLeft<32 - kBits*(j + 1)>(words)));
  }

#if HWY_TARGET <= HWY_AVX3
  Floats table;
#endif
};

// What will be read soon after these words, which a block has `count` of.
HWY_INLINE void FetchAhead(const uint32_t* words, int64_t count) {
  constexpr int64_t kAhead = 1024, kLine = 16;
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(words + kAhead + i);
}

HWY_INLINE Floats LoadZeros(const int8_t* from) {
  const hn::Rebind<int8_t, FloatTag> bytes;
  return hn::ConvertTo(FloatTag(), hn::PromoteTo(IntTag(), hn::LoadU(bytes, from)));
}

// Σ of one block's products for the columns of one vector.
template <int kBits>
HWY_INLINE Floats BlockSum(const Numbers<kBits>& numbers, const uint32_t* words, const float* a, int64_t groups) {
  constexpr int kPerWord = 32 / kBits;
  const FloatTag d;
  Floats s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t group = 0; group < groups; ++group, words += ferry::kNbitsPanel, a += kPerWord) {
    const Ints word = numbers.Ready(LoadWords(words));
    Unroll<0, kPerWord / 4>([&]<int part>() FERRY_INLINE {
      constexpr int j = 4 * part;
      s0 = hn::MulAdd(numbers.template At<j>(word), hn::Set(d, a[j]), s0);
      s1 = hn::MulAdd(numbers.template At<j + 1>(word), hn::Set(d, a[j + 1]), s1);
      s2 = hn::MulAdd(numbers.template At<j + 2>(word), hn::Set(d, a[j + 2]), s2);
      s3 = hn::MulAdd(numbers.template At<j + 3>(word), hn::Set(d, a[j + 3]), s3);
    });
  }
  return hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
}

template <int kBits>
HWY_NOINLINE void MultiplyPanel(const ferry::NbitsMatrix& m, int64_t panel, const float* a, const float* sums,
                                float* y) {
  const FloatTag d;
  const Numbers<kBits> numbers;
  const int64_t groups = m.block * kBits / 32;
  const uint32_t* words = m.words + panel * m.panel_words();
  const float* scales = m.scales + panel * m.blocks * ferry::kNbitsPanel;
  const int8_t* zeros = m.zeros ? m.zeros + panel * m.blocks * ferry::kNbitsPanel : nullptr;
  for (int64_t at = 0; at < m.blocks; ++at, a += m.block) {
    FetchAhead(words, groups * ferry::kNbitsPanel);
    for (int64_t v = 0; v < kVectors; ++v) {
      Floats sum = BlockSum<kBits>(numbers, words + v * kStep, a, groups);
      if (zeros) sum = hn::NegMulAdd(LoadZeros(zeros + v * kStep), hn::Set(d, sums[at]), sum);
      const Floats scale = hn::LoadU(d, scales + v * kStep);
      hn::StoreU(hn::MulAdd(sum, scale, hn::LoadU(d, y + v * kStep)), d, y + v * kStep);
    }
    words += groups * ferry::kNbitsPanel;
    scales += ferry::kNbitsPanel;
    if (zeros) zeros += ferry::kNbitsPanel;
  }
}

void Row(const ferry::NbitsMatrix& m, const ferry::NbitsPart& part, const float* a, const float* sums, float* y) {
  for (int64_t p = 0; p < part.panels; ++p) {
    const int64_t column = p * ferry::kNbitsPanel;
    const int64_t width = part.columns - column < ferry::kNbitsPanel ? part.columns - column : ferry::kNbitsPanel;
    float result[ferry::kNbitsPanel] = {};
    for (int64_t n = 0; n < width && part.bias; ++n) result[n] = part.bias[column + n];
    (m.bits == 4 ? MultiplyPanel<4> : MultiplyPanel<8>)(m, part.first + p, a, sums, result);
    for (int64_t n = 0; n < width; ++n) y[column + n] = result[n];
  }
}

// `count` depths of a block, for the columns of one vector.
template <int kBits>
HWY_INLINE void WidenBlock(const uint32_t* words, int64_t count, Floats scale, const Floats* zero, float* to) {
  constexpr int kPerWord = 32 / kBits;
  const FloatTag d;
  const Numbers<kBits> numbers;
  const auto widen = [&]<bool kZero, bool kWhole>(int64_t k) FERRY_INLINE {
    const Ints word = numbers.Ready(LoadWords(words + k / kPerWord * ferry::kNbitsPanel));
    Unroll<0, kPerWord>([&]<int j>() FERRY_INLINE {
      Floats number = numbers.template At<j>(word);
      if constexpr (kZero) number = hn::Sub(number, *zero);
      if (kWhole || k + j < count) hn::StoreU(hn::Mul(number, scale), d, to + (k + j) * ferry::kNbitsPanel);
    });
  };
  int64_t k = 0;
  if (zero)
    for (; k + kPerWord <= count; k += kPerWord) widen.template operator()<true, true>(k);
  else
    for (; k + kPerWord <= count; k += kPerWord) widen.template operator()<false, true>(k);
  if (k == count) return;
  const Floats none = hn::Zero(d);
  if (!zero) zero = &none;
  widen.template operator()<true, false>(k);
}

template <int kBits>
HWY_NOINLINE void WidenPanel(const ferry::NbitsMatrix& m, int64_t panel, int64_t first, int64_t count, float* to) {
  const uint32_t* words = m.words + panel * m.panel_words() + first * kBits / 32 * ferry::kNbitsPanel;
  for (int64_t k = 0; k < count; k += m.block, words += m.block * kBits / 32 * ferry::kNbitsPanel) {
    const int64_t block = (panel * m.blocks + (first + k) / m.block) * ferry::kNbitsPanel;
    const int64_t there = count - k < m.block ? count - k : m.block;
    FetchAhead(words, m.block * kBits / 32 * ferry::kNbitsPanel);
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t lane = v * kStep;
      const Floats scale = hn::LoadU(FloatTag(), m.scales + block + lane);
      const Floats zero = m.zeros ? LoadZeros(m.zeros + block + lane) : hn::Zero(FloatTag());
      WidenBlock<kBits>(words + lane, there, scale, m.zeros ? &zero : nullptr, to + k * ferry::kNbitsPanel + lane);
    }
  }
}

void Widen(const ferry::NbitsMatrix& m, int64_t panel, int64_t first, int64_t count, float* to) {
  (m.bits == 4 ? WidenPanel<4> : WidenPanel<8>)(m, panel, first, count, to);
}

}  // namespace

extern const NbitsKernels kNbitsKernels;
const NbitsKernels kNbitsKernels = {Row, Widen};

}  // namespace ferry::FERRY_ISA

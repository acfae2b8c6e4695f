#include "kernels/simd/int8_convert.h"

#include "kernels/simd/int8_tile-inl.h"

namespace ferry::FERRY_ISA {

#if HWY_TARGET != HWY_SCALAR
namespace {

// What FinishSums does, for rows of kTileColumns sums `stride` apart, without row terms.
template <bool kBytes>
HWY_INLINE void FinishRows(const ferry::Int8Output& out, int64_t row, int64_t rows, int64_t column, const int32_t* sums,
                           int64_t stride) {
  const IntTag d;
  const FloatTag df;
  const int32_t shifted = out.low < 0 || out.high < 0 ? 128 : 0;
  const Floats low = hn::Set(df, static_cast<float>(out.low - out.zero)),
               high = hn::Set(df, static_cast<float>(out.high - out.zero));
  Ints offset[kTileVectors];
  Floats factor[kTileVectors], shift[kTileVectors];
  for (int v = 0; v < kTileVectors; ++v) {
    offset[v] = out.offset ? hn::LoadU(d, out.offset + column + v * kIntStep) : hn::Zero(d);
    factor[v] = hn::LoadU(df, out.factor + column + v * kIntStep);
    shift[v] = out.shift ? hn::LoadU(df, out.shift + column + v * kIntStep) : hn::Zero(df);
  }
  auto value = [&](const int32_t* from, int v) {
    const Ints sum = hn::Add(hn::Load(d, from + v * kIntStep), offset[v]);
    return hn::MulAdd(hn::ConvertTo(df, sum), factor[v], shift[v]);
  };
  int64_t at = row * out.stride + column, i = 0;
  if constexpr (kBytes) {
    auto* const to = static_cast<uint8_t*>(out.c);
    const auto flip = static_cast<uint8_t>(shifted);
    auto make = [&](const int32_t* from, Ints(&levels)[kTileVectors]) {
      for (int v = 0; v < kTileVectors; ++v)
        levels[v] = NearestSmall(df, hn::Min(hn::Max(value(from, v), low), high), out.zero + shifted);
    };
    Ints levels[kTileVectors];
#if HWY_TARGET == HWY_AVX2
    // Two rows at once. What is too small stays so when it is converted and packed.
    const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(out.zero + shifted)),
                  least = _mm256_set1_epi8(static_cast<char>(out.low + shifted));
    auto shorts = [&](const int32_t* from) {
      __m256i whole[2];
      for (int v = 0; v < 2; ++v) whole[v] = _mm256_cvtps_epi32(hn::Min(value(from, v), high).raw);
      return _mm256_adds_epi16(_mm256_packs_epi32(whole[0], whole[1]), zero);
    };
    for (; i + 2 <= rows; i += 2, at += 2 * out.stride, sums += 2 * stride) {
      const __m256i bytes = _mm256_max_epu8(_mm256_packus_epi16(shorts(sums), shorts(sums + stride)), least);
      StoreTwoRows(bytes, flip, to + at, out.stride);
    }
#endif
    for (; i < rows; ++i, at += out.stride, sums += stride) {
      make(sums, levels);
      StoreLevels(levels, flip, to + at);
    }
  } else {
    for (; i < rows; ++i, at += out.stride, sums += stride)
      for (int v = 0; v < kTileVectors; ++v)
        hn::StoreU(value(sums, v), df, static_cast<float*>(out.c) + at + v * kIntStep);
  }
}

#if HWY_TARGET == HWY_AVX2
// The same for rows of eight sums that become bytes: four rows at once.
void FinishEights(const ferry::Int8Output& out, int64_t row, int64_t rows, int64_t column, const int32_t* sums,
                  int64_t stride) {
  const int32_t shifted = out.low < 0 || out.high < 0 ? 128 : 0;
  const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(out.zero + shifted)),
                least = _mm256_set1_epi8(static_cast<char>(out.low + shifted)),
                flip = _mm256_set1_epi8(static_cast<char>(shifted)), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i offset =
      out.offset ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(out.offset + column)) : _mm256_setzero_si256();
  const __m256 factor = _mm256_loadu_ps(out.factor + column),
               high = _mm256_set1_ps(static_cast<float>(out.high - out.zero)),
               shift = out.shift ? _mm256_loadu_ps(out.shift + column) : _mm256_setzero_ps();
  auto whole = [&](const int32_t* from) {
    const __m256i sum = _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
    const __m256 value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(sum, offset)), factor, shift);
    return _mm256_cvtps_epi32(_mm256_min_ps(value, high));
  };
  // What is too small stays so when it is converted and packed.
  auto four = [&](const int32_t* from, int64_t next, int64_t after, int64_t last) {
    const __m256i first = _mm256_adds_epi16(_mm256_packs_epi32(whole(from), whole(from + next)), zero),
                  second = _mm256_adds_epi16(_mm256_packs_epi32(whole(from + after), whole(from + last)), zero);
    const __m256i packed = _mm256_max_epu8(_mm256_packus_epi16(first, second), least);
    return _mm256_xor_si256(_mm256_permutevar8x32_epi32(packed, order), flip);
  };
  uint8_t* to = static_cast<uint8_t*>(out.c) + row * out.stride + column;
  for (; rows >= 4; rows -= 4, sums += 4 * stride, to += 4 * out.stride) {
    const __m256i bytes = four(sums, stride, 2 * stride, 3 * stride);
    if (out.stride == 8) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
      continue;
    }
    const __m128i low = _mm256_castsi256_si128(bytes), upper = _mm256_extracti128_si256(bytes, 1);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), low);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + out.stride), _mm_unpackhi_epi64(low, low));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 2 * out.stride), upper);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 3 * out.stride), _mm_unpackhi_epi64(upper, upper));
  }
  if (rows == 0) return;
  HWY_ALIGN uint64_t lines[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lines),
                     four(sums, rows > 1 ? stride : 0, rows > 2 ? 2 * stride : 0, 0));
  for (int64_t k = 0; k < rows; ++k) __builtin_memcpy(to + k * out.stride, lines + k, sizeof lines[k]);
}
#endif

// Rows that are not as wide as a tile are made so in between. Arrays over columns are readable beyond their end.
void FinishNarrow(const ferry::Int8Output& out, int64_t row, int64_t rows, int64_t column, int64_t columns,
                  const int32_t* sums, int64_t stride) {
  constexpr int64_t kRows = 32;
  uint8_t made[kRows * kTileColumns];
  ferry::Int8Output between = out;
  between.c = made, between.stride = kTileColumns;
  between.offset = out.offset ? out.offset + column : nullptr, between.factor = out.factor + column;
  between.shift = out.shift ? out.shift + column : nullptr;
  auto* to = static_cast<uint8_t*>(out.c) + row * out.stride + column;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = rows - first < kRows ? rows - first : kRows;
    FinishRows<true>(between, 0, count, 0, sums + first * stride, stride);
    for (int64_t i = 0; i < count; ++i, to += out.stride)
      for (int64_t n = 0; n < columns; ++n) to[n] = made[i * kTileColumns + n];
  }
}

}  // namespace

void FinishBlock(const ferry::Int8Output& out, int64_t row, int64_t rows, int64_t column, int64_t columns,
                 const int32_t* sums, int64_t stride) {
  using Kind = ferry::Int8Output::Kind;
  if (columns == kTileColumns && !out.row_term) {
    if (out.kind == Kind::kBytes) return FinishRows<true>(out, row, rows, column, sums, stride);
    if (out.kind == Kind::kFloats) return FinishRows<false>(out, row, rows, column, sums, stride);
  }
#if HWY_TARGET == HWY_AVX2
  if (columns == 8 && out.kind == Kind::kBytes && !out.row_term)
    return FinishEights(out, row, rows, column, sums, stride);
#endif
  if (out.kind == Kind::kBytes && !out.row_term) return FinishNarrow(out, row, rows, column, columns, sums, stride);
  const IntTag d;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t n = 0; n < columns; n += kIntStep)
      FinishSums(d, hn::Load(d, sums + i * stride + n), out, row + i, column + n, columns - n);
}

#endif

void Int8PrepareBytes(const uint8_t* from, uint8_t flip, int64_t count, void* to) {
  const hn::CappedTag<uint8_t, 16> d;
  constexpr int64_t kAll = hn::MaxLanes(d);
  auto* bytes = static_cast<uint8_t*>(to);
  const auto flips = hn::Set(d, flip);
  auto some = [&](int64_t i) { hn::StoreU(hn::Xor(hn::LoadU(d, from + i), flips), d, bytes + i); };
  int64_t i = 0;
  for (; i + kAll <= count; i += kAll) some(i);
  if (i < count && count >= kAll) {
    some(count - kAll);  // some are made twice
    return;
  }
  for (; i < count; ++i) bytes[i] = from[i] ^ flip;
}

void Int8FillBytes(uint8_t value, int64_t count, void* to) { __builtin_memset(to, value, static_cast<size_t>(count)); }

void Int8Range(const float* x, int64_t count, float* low, float* high) {
  const FloatTag d;
  Floats smallest = hn::Zero(d), largest = hn::Zero(d), smallest2 = smallest, largest2 = largest;
  int64_t i = 0;
  for (; i + 2 * kIntStep <= count; i += 2 * kIntStep) {
    Floats v = hn::LoadU(d, x + i), w = hn::LoadU(d, x + i + kIntStep);
    smallest = hn::IfThenElse(hn::Lt(v, smallest), v, smallest);
    largest = hn::IfThenElse(hn::Gt(v, largest), v, largest);
    smallest2 = hn::IfThenElse(hn::Lt(w, smallest2), w, smallest2);
    largest2 = hn::IfThenElse(hn::Gt(w, largest2), w, largest2);
  }
  *low = hn::GetLane(hn::MinOfLanes(d, hn::Min(smallest, smallest2)));
  *high = hn::GetLane(hn::MaxOfLanes(d, hn::Max(largest, largest2)));
  for (; i < count; ++i) {
    if (x[i] < *low) *low = x[i];
    if (x[i] > *high) *high = x[i];
  }
}

void Int8Quantize(const float* x, int64_t count, float scale, float zero, uint8_t flip, uint8_t* y) {
  const FloatTag d;
  const IntTag di;
  const hn::Rebind<uint8_t, FloatTag> d8;
  const Floats divisor = hn::Set(d, scale), shift = hn::Set(d, zero), most = hn::Set(d, 255.0f), none = hn::Zero(d);
  const auto flips = hn::Set(d8, flip);
  auto one = [&](Floats v) {
    Floats level = hn::Add(hn::Round(hn::Div(v, divisor)), shift);
    level = hn::IfThenElse(hn::Gt(level, none), level, none);
    return hn::Xor(ToBytes(di, NearestSmall(d, hn::IfThenElse(hn::Gt(level, most), most, level), 0)), flips);
  };
  int64_t i = 0;
  for (; i + kIntStep <= count; i += kIntStep) hn::StoreU(one(hn::LoadU(d, x + i)), d8, y + i);
  if (i == count) return;
  HWY_ALIGN float rest[kLanes] = {};
  for (int64_t n = i; n < count; ++n) rest[n - i] = x[n];
  StorePart(d8, one(hn::Load(d, rest)), count - i, y + i);
}

void Int8Dequantize(const uint8_t* x, int64_t count, float scale, int32_t zero, uint8_t flip, float* y) {
  const FloatTag d;
  const IntTag di;
  const hn::Rebind<uint8_t, FloatTag> d8;
  const Floats factor = hn::Set(d, scale);
  const auto zeros = hn::Set(di, zero);
  const auto flips = hn::Set(d8, flip);
  int64_t i = 0;
  for (; i + kIntStep <= count; i += kIntStep) {
    const auto level = hn::PromoteTo(di, hn::Xor(hn::LoadU(d8, x + i), flips));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::Sub(level, zeros)), factor), d, y + i);
  }
  for (; i < count; ++i) y[i] = static_cast<float>(int32_t{static_cast<uint8_t>(x[i] ^ flip)} - zero) * scale;
}

}  // namespace ferry::FERRY_ISA

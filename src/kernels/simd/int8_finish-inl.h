// What becomes of 32-bit sums where they leave the registers.
#pragma once

#include "kernels/int8_gemm.h"
#include "kernels/simd/target.h"

namespace ferry::FERRY_ISA {

// Stores the first `count` lanes of a vector.
template <class D, class T = hn::TFromD<D>>
static HWY_INLINE void StorePart(D d, hn::Vec<D> v, int64_t count, T* to) {
  constexpr int64_t kAll = hn::MaxLanes(D());
  if (count >= kAll) {
    hn::StoreU(v, d, to);
    return;
  }
  HWY_ALIGN T part[hn::MaxLanes(D())];
  hn::Store(v, d, part);
  for (int64_t i = 0; i < count; ++i) to[i] = part[i];
}

// Integers in [0, 255] to bytes.
template <class D>
static HWY_INLINE hn::Vec<hn::Rebind<uint8_t, D>> ToBytes(D, hn::Vec<D> v) {
  return hn::DemoteTo(hn::Rebind<uint8_t, D>(), v);
}

// The nearest integer (halves to even) + `added` of numbers far smaller than 2²²: the conversion of the instruction set
// comes with corrections for those that are too large.
template <class D>
static HWY_INLINE hn::Vec<hn::RebindToSigned<D>> NearestSmall(D d, hn::Vec<D> v, int32_t added) {
  constexpr float kWhole = 12582912.0f;  // 1.5 · 2²³: its last bit counts ones
  constexpr int32_t kBits = 0x4B400000;
  const hn::RebindToSigned<D> di;
  return hn::Add(hn::BitCast(di, hn::Add(v, hn::Set(d, kWhole))), hn::Set(di, added - kBits));
}

// One vector of sums of a row, from `column` on.
template <class D>
static HWY_INLINE void FinishSums(D d, hn::Vec<D> sum, const ferry::Int8Output& out, int64_t row, int64_t column,
                                  int64_t count) {
  using Kind = ferry::Int8Output::Kind;
  const hn::Rebind<float, D> df;
  if (out.offset) sum = hn::Add(sum, hn::LoadU(d, out.offset + column));
  if (out.row_term) sum = hn::Add(sum, hn::Mul(hn::Set(d, out.row_term[row]), hn::LoadU(d, out.column_term + column)));
  int64_t at = row * out.stride + column;
  if (out.kind == Kind::kSums) return StorePart(d, sum, count, static_cast<int32_t*>(out.c) + at);
  auto value = hn::ConvertTo(df, sum);
  const auto factor = hn::LoadU(df, out.factor + column);
  value = out.shift ? hn::MulAdd(value, factor, hn::LoadU(df, out.shift + column)) : hn::Mul(value, factor);
  if (out.kind == Kind::kFloats) return StorePart(df, value, count, static_cast<float*>(out.c) + at);
  // Cut before rounding, so that nothing is too large for an integer; signed results are shifted into [0, 255].
  const int32_t shifted = out.low < 0 || out.high < 0 ? 128 : 0;
  value = hn::Max(value, hn::Set(df, static_cast<float>(out.low - out.zero)));
  value = hn::Min(value, hn::Set(df, static_cast<float>(out.high - out.zero)));
  const auto level = NearestSmall(df, value, out.zero + shifted);
  const hn::Rebind<uint8_t, D> d8;
  const auto flip = hn::Set(d8, static_cast<uint8_t>(shifted));
  StorePart(d8, hn::Xor(ToBytes(d, level), flip), count, static_cast<uint8_t*>(out.c) + at);
}

}  // namespace ferry::FERRY_ISA

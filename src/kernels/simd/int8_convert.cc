#include "kernels/simd/int8_convert.h"

#include "kernels/simd/int8_tile-inl.h"

namespace ferry::FERRY_ISA {

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

#include "kernels/simd/finish-inl.h"

namespace ferry::FERRY_ISA {

template <class F>
static HWY_INLINE void Map(const float* x, float* y, int64_t count, const F& f) {
  const FloatTag d;
  constexpr int64_t kStep = static_cast<int64_t>(kLanes);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) hn::StoreU(f(hn::LoadU(d, x + i)), d, y + i);
  if (i == count) return;
  FloatMask rest = hn::FirstN(d, static_cast<size_t>(count - i));
  StoreWhere(f(LoadWhere(rest, d, x + i)), rest, d, y + i);
}

// y may be x. Also the row kernel: each activation is compiled once.
void ActivateRow(const Activation& activation, const float* x, float* y, int64_t count);
void ActivateRow(const Activation& activation, const float* x, float* y, int64_t count) {
  WithActivation(activation, [&](const auto& activate) { Map(x, y, count, activate); });
}

void ActivateSpan(const Activation& activation, float* x, int64_t count) { ActivateRow(activation, x, x, count); }

}  // namespace ferry::FERRY_ISA

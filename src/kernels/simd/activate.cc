#include "kernels/simd/finish-inl.h"

namespace ferry::FERRY_ISA {

void ActivateSpan(const Activation& activation, float* x, int64_t count) {
  const FloatTag d;
  constexpr int64_t kStep = static_cast<int64_t>(kLanes);
  WithActivation(activation.kind, [&]<ActivationKind kKind>() {
    const Floats alpha = hn::Set(d, activation.alpha), beta = hn::Set(d, activation.beta);
    int64_t i = 0;
    for (; i + kStep <= count; i += kStep) hn::StoreU(Activate<kKind>(hn::LoadU(d, x + i), alpha, beta), d, x + i);
    if (i == count) return;
    FloatMask rest = hn::FirstN(d, static_cast<size_t>(count - i));
    StoreWhere(Activate<kKind>(LoadWhere(rest, d, x + i), alpha, beta), rest, d, x + i);
  });
}

}  // namespace ferry::FERRY_ISA

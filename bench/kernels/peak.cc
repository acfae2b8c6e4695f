#include "peak.h"

#include <cstdint>

#include "kernels/isa.h"

namespace ferry::bench {
namespace {

constexpr int64_t kTurns = 20000;
constexpr int kChains = 12;  // enough to hide the latency of each

volatile float sink;

template <class Vector>
[[gnu::always_inline]] inline double Chains() {
  Vector sums[kChains] = {}, factor = Vector{} + 0.999f, term = Vector{} + 0.5f;
  for (int64_t turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 12
    for (Vector& sum : sums) sum = sum * factor + term;
    asm volatile("" : "+x"(sums[0]));  // the compiler must not see through the loop
  }
  Vector total = {};
  for (const Vector& sum : sums) total += sum;
  sink = total[0];
  return 2.0 * static_cast<double>(kTurns * kChains) * static_cast<double>(sizeof(Vector) / sizeof(float));
}

typedef float Floats4 __attribute__((vector_size(16)));
typedef float Floats8 __attribute__((vector_size(32)));
typedef float Floats16 __attribute__((vector_size(64)));

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) double Avx2() { return Chains<Floats8>(); }
__attribute__((target("avx512f,fma"))) double Avx512() { return Chains<Floats16>(); }
#endif

}  // namespace

double RunPeak() {
#if defined(__x86_64__)
  if (BestIsa() == Isa::kAvx512) return Avx512();
  if (BestIsa() == Isa::kAvx2) return Avx2();
#endif
  return Chains<Floats4>();
}

}  // namespace ferry::bench

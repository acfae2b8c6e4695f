#include "kernels/isa.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/packed_gemm.h"

namespace ferry {

Isa BestIsa() {
  static const Isa best = [] {
    Isa found = Isa::kBaseline;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
      found = Isa::kAvx2;
    if (found == Isa::kAvx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
      found = Isa::kAvx512;
    if (const char* wanted = getenv("FERRY_ISA")) {
      if (strcmp(wanted, "baseline") == 0) found = Isa::kBaseline;
      if (strcmp(wanted, "avx2") == 0 && found == Isa::kAvx512) found = Isa::kAvx2;
    }
#endif
    return found;
  }();
  return best;
}

#if defined(__x86_64__)
namespace avx512 { extern const GemmKernels kGemmKernels; }
namespace avx2 { extern const GemmKernels kGemmKernels; }
#endif
namespace baseline { extern const GemmKernels kGemmKernels; }

const GemmKernels& BestGemmKernels() {
  switch (BestIsa()) {
#if defined(__x86_64__)
    case Isa::kAvx512: return avx512::kGemmKernels;
    case Isa::kAvx2: return avx2::kGemmKernels;
#endif
    default: return baseline::kGemmKernels;
  }
}

}  // namespace ferry

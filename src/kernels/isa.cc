#include "kernels/isa.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/elementwise.h"
#include "kernels/int8_gemm.h"
#include "kernels/int8_image.h"
#include "kernels/packed_gemm.h"
#include "kernels/row_kernels.h"

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
#define FERRY_CHOOSE(TABLE, NAME)             \
  namespace avx512 {                          \
  extern const TABLE NAME;                    \
  }                                           \
  namespace avx2 {                            \
  extern const TABLE NAME;                    \
  }                                           \
  namespace baseline {                        \
  extern const TABLE NAME;                    \
  }                                           \
  static const TABLE& Choose_##TABLE() {      \
    switch (BestIsa()) {                      \
      case Isa::kAvx512: return avx512::NAME; \
      case Isa::kAvx2: return avx2::NAME;     \
      default: return baseline::NAME;         \
    }                                         \
  }
#else
#define FERRY_CHOOSE(TABLE, NAME) \
  namespace baseline {            \
  extern const TABLE NAME;        \
  }                               \
  static const TABLE& Choose_##TABLE() { return baseline::NAME; }
#endif

FERRY_CHOOSE(GemmKernels, kGemmKernels)
FERRY_CHOOSE(Int8Kernels, kInt8Kernels)
FERRY_CHOOSE(Int8ImageKernels, kInt8ImageKernels)
FERRY_CHOOSE(RowKernels, kRowKernels)
FERRY_CHOOSE(ElementwiseKernels, kElementwiseKernels)

const GemmKernels& BestGemmKernels() { return Choose_GemmKernels(); }

#if defined(__x86_64__)
namespace avx512 {
extern const Int8Kernels kInt8VnniKernels;
}
#endif

const Int8Kernels& BestInt8Kernels() {
#if defined(__x86_64__)
  static const bool has_vnni = BestIsa() == Isa::kAvx512 && __builtin_cpu_supports("avx512vnni");
  if (has_vnni) return avx512::kInt8VnniKernels;
#endif
  return Choose_Int8Kernels();
}

const Int8ImageKernels& BestInt8ImageKernels() { return Choose_Int8ImageKernels(); }
const RowKernels& BestRowKernels() { return Choose_RowKernels(); }
const ElementwiseKernels& BestElementwiseKernels() { return Choose_ElementwiseKernels(); }

}  // namespace ferry

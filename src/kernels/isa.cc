#include "kernels/isa.h"

#include <stdlib.h>
#include <string.h>

#include "base/processor.h"
#include "kernels/bf16_gemm.h"
#include "kernels/count.h"
#include "kernels/elementwise.h"
#include "kernels/int8_gemm.h"
#include "kernels/int8_nhwc.h"
#include "kernels/int8_winograd.h"
#include "kernels/nbits_gemm.h"
#include "kernels/nhwc.h"
#include "kernels/packed_gemm.h"
#include "kernels/panel_gemm.h"
#include "kernels/row_kernels.h"

namespace ferry {
namespace {

Isa IsaOfThisCpu() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  auto has_all = [](auto... supported) { return (... && supported); };
  if (!__builtin_cpu_supports("sse4.2")) return Isa::kBaseline;
  if (!has_all(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"), __builtin_cpu_supports("bmi2")))
    return Isa::kSse4;
  if (!has_all(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512bw"),
               __builtin_cpu_supports("avx512dq"), __builtin_cpu_supports("avx512vl"),
               __builtin_cpu_supports("avx512cd")))
    return Isa::kAvx2;
  return Isa::kAvx512;
#elif defined(__aarch64__)
  return Isa::kNeon;
#elif defined(__wasm__)
  return Isa::kWasm;
#else
  return Isa::kBaseline;
#endif
}

}  // namespace

Isa BestIsa() {
  static const Isa best = [] {
    Isa found = IsaOfThisCpu();
    if (const char* wanted = getenv("FERRY_ISA")) {
      if (strcmp(wanted, "baseline") == 0) return Isa::kBaseline;
      if (strcmp(wanted, "sse4") == 0 && found > Isa::kSse4 && found <= Isa::kAvx512) return Isa::kSse4;
      if (strcmp(wanted, "avx2") == 0 && found == Isa::kAvx512) return Isa::kAvx2;
    }
    return found;
  }();
  return best;
}

bool CanRun(Isa isa) {
  Isa found = IsaOfThisCpu();
  return isa == Isa::kBaseline || isa == found || (isa < found && found <= Isa::kAvx512);
}

#define FERRY_DECLARE(ISA, TABLE) \
  namespace ISA {                 \
  extern const TABLE k##TABLE;    \
  }
#if defined(__x86_64__)
#define FERRY_CHOOSE(TABLE)                       \
  FERRY_DECLARE(baseline, TABLE)                  \
  FERRY_DECLARE(sse4, TABLE)                      \
  FERRY_DECLARE(avx2, TABLE)                      \
  FERRY_DECLARE(avx512, TABLE)                    \
  const TABLE& TABLE##Of(Isa isa) {               \
    switch (isa) {                                \
      case Isa::kAvx512: return avx512::k##TABLE; \
      case Isa::kAvx2: return avx2::k##TABLE;     \
      case Isa::kSse4: return sse4::k##TABLE;     \
      default: return baseline::k##TABLE;         \
    }                                             \
  }
#elif defined(__aarch64__)
#define FERRY_CHOOSE(TABLE)      \
  FERRY_DECLARE(baseline, TABLE) \
  FERRY_DECLARE(neon, TABLE)     \
  const TABLE& TABLE##Of(Isa isa) { return isa == Isa::kNeon ? neon::k##TABLE : baseline::k##TABLE; }
#elif defined(__EMSCRIPTEN__)
// Every engine that a page finds has vectors, and whoever opens it downloads what is not needed.
#define FERRY_CHOOSE(TABLE)  \
  FERRY_DECLARE(wasm, TABLE) \
  const TABLE& TABLE##Of(Isa) { return wasm::k##TABLE; }
#elif defined(__wasm__)
#define FERRY_CHOOSE(TABLE)      \
  FERRY_DECLARE(baseline, TABLE) \
  FERRY_DECLARE(wasm, TABLE)     \
  const TABLE& TABLE##Of(Isa isa) { return isa == Isa::kWasm ? wasm::k##TABLE : baseline::k##TABLE; }
#else
#define FERRY_CHOOSE(TABLE)      \
  FERRY_DECLARE(baseline, TABLE) \
  const TABLE& TABLE##Of(Isa) { return baseline::k##TABLE; }
#endif

#define FERRY_CHOOSE_BEST(TABLE) \
  FERRY_CHOOSE(TABLE)            \
  const TABLE& Best##TABLE() { return TABLE##Of(BestIsa()); }

FERRY_CHOOSE_BEST(CountKernels)
FERRY_CHOOSE_BEST(ElementwiseKernels)
FERRY_CHOOSE_BEST(GemmKernels)
FERRY_CHOOSE_BEST(NhwcKernels)
FERRY_CHOOSE_BEST(Int8WinogradTable)
FERRY_CHOOSE_BEST(NbitsKernels)
FERRY_CHOOSE_BEST(PanelKernels)
FERRY_CHOOSE_BEST(RowKernels)
FERRY_CHOOSE(Int8NhwcKernels)
FERRY_CHOOSE(Int8Kernels)

#if defined(__x86_64__)
FERRY_DECLARE(baseline, Bf16Kernels)
FERRY_DECLARE(sse4, Bf16Kernels)
FERRY_DECLARE(avx2, Bf16Kernels)
const Bf16Kernels& Bf16KernelsOf(Isa isa) {
  if (isa == Isa::kAvx512 || isa == Isa::kAvx2) return avx2::kBf16Kernels;
  return isa == Isa::kSse4 ? sse4::kBf16Kernels : baseline::kBf16Kernels;
}

namespace avx2 {
extern const NbitsByteKernels kNbitsByteKernels;
}  // namespace avx2
namespace avx512 {
extern const Bf16Kernels kBf16NativeKernels;
extern const Int8Kernels kInt8VnniKernels;
extern const NbitsByteKernels kNbitsByteKernels;
void Int8DepthwiseVnni(const Int8Depthwise& conv);
}  // namespace avx512

namespace {
bool HasVnni() {
  static const bool has = BestIsa() == Isa::kAvx512 && __builtin_cpu_supports("avx512vnni");
  return has;
}
}  // namespace
#else
FERRY_CHOOSE(Bf16Kernels)
#endif

#if defined(__aarch64__)
namespace neon {
extern const Int8Kernels kInt8DotKernels;
}

namespace {
bool HasDot() {
  static const bool has = [] {
    const char* wanted = getenv("FERRY_ISA");
    return BestIsa() == Isa::kNeon && !(wanted && strcmp(wanted, "neon") == 0) && HasArmDotProducts();
  }();
  return has;
}
}  // namespace
#endif

const Int8Kernels& BestInt8Kernels() {
#if defined(__x86_64__)
  if (HasVnni()) return avx512::kInt8VnniKernels;
#elif defined(__aarch64__)
  if (HasDot()) return neon::kInt8DotKernels;
#endif
  return Int8KernelsOf(BestIsa());
}

const Int8NhwcKernels& BestInt8NhwcKernels() {
#if defined(__x86_64__)
  if (HasVnni()) {
    static const Int8NhwcKernels with_vnni = [] {
      Int8NhwcKernels kernels = avx512::kInt8NhwcKernels;
      kernels.depthwise = avx512::Int8DepthwiseVnni;
      return kernels;
    }();
    return with_vnni;
  }
#endif
  return Int8NhwcKernelsOf(BestIsa());
}

const NbitsByteKernels* Avx2NbitsByteKernels() {
#if defined(__x86_64__)
  if (CanRun(Isa::kAvx2)) return &avx2::kNbitsByteKernels;
#endif
  return nullptr;
}

const NbitsByteKernels* BestNbitsByteKernels() {
#if defined(__x86_64__)
  if (HasVnni()) return &avx512::kNbitsByteKernels;
#endif
  return BestIsa() == Isa::kAvx2 ? Avx2NbitsByteKernels() : nullptr;
}

const Bf16Kernels* NativeBf16Kernels() {
#if defined(__x86_64__)
  static const bool has_bf16 = CanRun(Isa::kAvx512) && __builtin_cpu_supports("avx512bf16");
  if (has_bf16) return &avx512::kBf16NativeKernels;
#endif
  return nullptr;
}

const Bf16Kernels& BestBf16Kernels() {
  const Bf16Kernels* native = BestIsa() == Isa::kAvx512 ? NativeBf16Kernels() : nullptr;
  return native ? *native : Bf16KernelsOf(BestIsa());
}

}  // namespace ferry

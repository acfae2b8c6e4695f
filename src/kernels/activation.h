// Activations that kernels can apply while the result is still in registers.
#pragma once

#include <stdint.h>

namespace ferry {

enum class ActivationKind : uint8_t {
  kNone,
  kRelu,
  kClip,       // to [alpha, beta]
  kLeakyRelu,  // alpha
  kSigmoid,
  kSilu,         // x · sigmoid(alpha · x)
  kHardSigmoid,  // clip(alpha · x + beta, 0, 1)
  kHardSwish,
  kTanh,
  kGelu,  // with erf
  kGeluTanh,
};

struct Activation {
  ActivationKind kind = ActivationKind::kNone;
  float alpha = 0.0f;
  float beta = 0.0f;
};

// Activations that only limit the range, which costs next to nothing.
static inline bool IsLimit(ActivationKind kind) {
  return kind == ActivationKind::kNone || kind == ActivationKind::kRelu || kind == ActivationKind::kClip;
}

}  // namespace ferry

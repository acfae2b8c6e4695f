// How precisely float32 products are computed, as the user chooses.
#pragma once

#include <string_view>

namespace ferry {

enum class Precision {
  kFloat32,
  // Constant matrices and the weights of convolutions that are products are kept as bfloat16, what they are multiplied
  // with is rounded to it; sums and everything else are float32.
  kBf16,
  // Operands of products and convolutions may be rounded to 10 bits, which GPUs multiply faster; sums are float32.
  // Providers that gain nothing from it compute in float32.
  kTf32,
  // Everything that a GPU has kernels for is float16, weights included, with sums inside kernels in float32; on a GPU
  // the same holds of kBf16. The CPU computes in float32.
  kFp16,
};

// "float32", "bf16", "tf32" or "fp16"; throws naming them for anything else.
Precision PrecisionNamed(std::string_view name);

}  // namespace ferry

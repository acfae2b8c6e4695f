// How precisely float32 products are computed, as the user chooses.
#pragma once

#include <string_view>

namespace ferry {

enum class Precision {
  kFloat32,
  // Constant matrices and the weights of convolutions that are products are kept as bfloat16, what they are multiplied
  // with is rounded to it; sums and everything else are float32.
  kBf16,
};

// "float32" or "bf16"; throws naming both for anything else.
Precision PrecisionNamed(std::string_view name);

}  // namespace ferry

#include "ops/support/nchwc.h"

#include "kernels/isa.h"

namespace ferry {

int64_t NchwcBlock() {
  const Isa isa = BestIsa();
  return isa == Isa::kAvx512 || isa == Isa::kNeon ? 16 : 8;
}

Tensor NchwcFilter(const Tensor& filter, int64_t block, bool inputs_in_blocks) {
  Require(filter.dtype() == DType::kFloat && filter.rank() == 4 && filter.dim(0) % block == 0 &&
              (!inputs_in_blocks || filter.dim(1) % block == 0),
          "a filter of shape ", filter.shape(), " is not made of blocks of ", block, " channels");
  const int64_t outputs = filter.dim(0), inputs = filter.dim(1), taps = filter.dim(2) * filter.dim(3);
  const int64_t inner = inputs_in_blocks ? block : 1;  // input channels side by side
  Tensor plain(DType::kFloat, filter.shape());
  const float* from = filter.Data<float>();
  float* to = plain.MutableData<float>();
  for (int64_t o = 0; o < outputs; o += block)
    for (int64_t i = 0; i < inputs; i += inner)
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t j = 0; j < inner; ++j)
          for (int64_t n = 0; n < block; ++n) to[((o + n) * inputs + i + j) * taps + tap] = *from++;
  return plain;
}

}  // namespace ferry

// Convolutions by cuDNN over channels-last images, with bias, sum and activation in the same kernel: by its graph
// interface with engines that are timed for each shape, or by its older functions where that has none.
#pragma once

#include "kernels/activation.h"
#include "ops/support/window.h"
#include "providers/cuda/device.h"
#include "tensor/dtype.h"

namespace ferry::cuda {

struct ConvolutionShape {
  DType dtype = DType::kFloat;
  int64_t batch = 0, channels = 0, features = 0, groups = 1;
  WindowAxis axes[2];  // padding at both ends must be the same
  bool has_bias = false, has_sum = false;
  Activation after;  // of convolution, bias and sum together
  bool tf32 = false;
};

struct ConvolutionOperands {
  const std::byte* x = nullptr;  // [N, H, W, C]
  const std::byte* w = nullptr;  // [M, kernel H, kernel W, C / groups]
  const std::byte *bias = nullptr, *sum = nullptr;
  std::byte* y = nullptr;
};

bool CanConvolve(const ConvolutionShape& shape);
// False: the activation is left to the caller, because cuDNN has no kernel that applies it.
bool Convolve(const Device& device, const ConvolutionShape& shape, const ConvolutionOperands& operands);

}  // namespace ferry::cuda

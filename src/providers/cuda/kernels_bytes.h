// Quantised tensors away from the tensor cores: convolutions with groups, sums, means, tables.
#pragma once

#include "providers/cuda/byte_convolution.h"

namespace ferry::cuda {

// Any convolution of bytes, a thread for each result.
struct DirectBytes {
  int64_t total, channels, features, group_channels, group_features, input_pixels, output_pixels;
  int64_t channel_step, pixel_step;            // of x
  int64_t made_channel_step, made_pixel_step;  // of y
  struct Axis {
    int64_t input, output, kernel, stride, dilation, pad;
  } axes[3];
};
void ConvolveBytesDirectly(const Device& device, const DirectBytes& how, DType x_type, const AfterBytes& after,
                           const Tensor& w, const ByteOperands& operands);

// One channel to one, channels last, `channels` a multiple of 4; weights as [taps, channels].
void ConvolveBytesDepthwise(const Device& device, const ByteWindows& windows, DType x_type, const AfterBytes& after,
                            const Tensor& w, const ByteOperands& operands);

void AddBytes(const Device& device, const AfterBytes& sum, const Tensor& a, const Tensor& b, Tensor& y);
void LookUpBytes(const Device& device, const Tensor& x, const Tensor& table, Tensor& y);
// nearest((Σ x − pixels · x_zero) · factor) over pixels that lie `pixel_step` apart.
struct ByteMean {
  int64_t total, channels, pixels, channel_step, pixel_step;
  float factor;
};
void AverageBytes(const Device& device, const ByteMean& mean, DType x_type, const AfterBytes& after, const std::byte* x,
                  std::byte* y);

}  // namespace ferry::cuda

// Convolutions and products of bytes on tensor cores: exact 32-bit sums, and behind them, in the same kernel, what
// ops/support/quantized_step.h says, and the sum with another quantised tensor.
#pragma once

#include "ops/support/nhwc.h"
#include "ops/support/quantized_step.h"
#include "providers/cuda/launch.h"
#include "tensor/tensor.h"

namespace ferry::cuda {

// What becomes of a sum, as kernels get it.
struct AfterBytes {
  int32_t x_zero = 0, y_zero = 0, low = 0, high = 255;
  int32_t is_float = 0;
  // A QuantizedAdd behind it: nearest(first · first_factor + (second · second_factor + added)).
  int32_t has_other = 0, other_is_signed = 0, made_is_second = 0, sum_low = 0, sum_high = 255;
  float first_factor = 1, second_factor = 1, added = 0;

  explicit AfterBytes(const QuantizedStep& step);
  // `add`: the QuantizedAdd; `made_is_second`: what the sums became is its second operand.
  void AddOther(const Node& add, DType other, bool made_is_second);
};
// The numbers of a QuantizedAdd, with its operands as they stand.
AfterBytes ReadByteSum(const Node& add);

// Weights as the kernel reads them, [features, depth] with every tap's channels padded to 16, and their sums.
struct ByteFilter {
  Tensor rows, sums;
};

// One convolution without groups, channels last; the image may have been made ready by PadBytes before.
struct ByteWindows {
  int64_t batch = 0, channels = 0, features = 0;
  WindowAxis axes[2];
  bool channels_first = false;  // of the image that comes in
};

struct ByteOperands {
  const std::byte* x = nullptr;
  const ByteFilter* filter = nullptr;
  const std::byte *factor = nullptr, *bias = nullptr, *shift = nullptr, *other = nullptr;
  std::byte* y = nullptr;
};

bool CanConvolveBytes(const ByteWindows& windows);
ByteFilter PackByteFilter(const Device& device, const ByteWindows& windows, const Tensor& w);
// The same of a matrix: [features, depth], or [depth, features] where it is not `turned`.
ByteFilter PackByteMatrix(const Device& device, const Tensor& w, bool turned);
// The fastest of several shapes of tiles, timed for each problem; `tile`: that one.
void ConvolveBytes(const Device& device, const ByteWindows& windows, DType x_type, const AfterBytes& after,
                   const ByteOperands& operands, std::optional<int> tile = {});
int ByteTiles();
bool HasByteTile(const Device& device, int tile);
std::vector<KernelSource> ByteConvolutionSources();

// Part of every kernel that ends in quantised numbers.
extern const char kAfterBytesSource[];
extern const char kByteConvolutionSource[];

// An image of bytes with more channels, more pixels around it, and its channels last. Bytes that were not there are
// `fill`.
struct PaddedBytes {
  int64_t batch, channels, height, width;
  int64_t made_channels, made_height, made_width, top, left;
  bool channels_first;
  uint8_t fill;
};
void PadBytes(const Device& device, const PaddedBytes& how, const std::byte* x, std::byte* y);

}  // namespace ferry::cuda

// Convolutions whose windows become rows of a matrix first, which one product with the filters then takes: few channels
// (the first layer of a network), and windows that do not overlap. Libraries are slow at both.
#pragma once

#include "providers/cuda/convolution.h"
#include "providers/cuda/launch.h"
#include "tensor/tensor.h"

namespace ferry::cuda {

// `channels_first`: how the image lies, and with it the order of elements in a row: [C, kernel H, kernel W], else
// [kernel H, kernel W, C].
bool TakesPatches(const ConvolutionShape& shape);
// Elements of a row, with zeros behind the last one so that rows begin at multiples of 16 bytes.
int64_t PatchPitch(const ConvolutionShape& shape);
// So many images that their rows stay in a device's cache.
int64_t ImagesTogether(const ConvolutionShape& shape);
// [batch · output pixels, pitch]
Tensor GatherPatches(const Device& device, const ConvolutionShape& shape, bool channels_first, const std::byte* x);
// [M, C, kernel H, kernel W] on the host to [M, pitch] on the device.
Tensor PatchFilter(const Device& device, const ConvolutionShape& shape, bool channels_first, const Tensor& w);

std::vector<KernelSource> PatchSources();

}  // namespace ferry::cuda

// Convolutions in groups of 8 or 16 channels to as many features over channels-last images, on tensor cores: a group's
// inputs at one tap are one step of a product of 16 pixels by 8 features.
#pragma once

#include "providers/cuda/convolution.h"
#include "providers/cuda/launch.h"

namespace ferry::cuda {

// `compute_major`: of the device. Float32 only where it may round to TF32.
bool IsGrouped(const ConvolutionShape& shape, int compute_major);
// limit(conv(x, w) + bias), where `after` is a limit or nothing; `w` as for Convolve. Padding may differ at the ends.
void ConvolveGrouped(const Device& device, const ConvolutionShape& shape, const ConvolutionOperands& operands);

std::vector<KernelSource> GroupedSources();

}  // namespace ferry::cuda

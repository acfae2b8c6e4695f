// Convolutions of one channel to one channel over channels-last images, which libraries are slow at: every output is a
// few products, and all that counts is to read neighbouring channels together.
#pragma once

#include "providers/cuda/convolution.h"
#include "providers/cuda/launch.h"

namespace ferry::cuda {

bool IsDepthwise(const ConvolutionShape& shape);
bool DepthwiseApplies(const Activation& activation);
// activation(conv(x, w) + bias + sum); `w` is [kernel H · kernel W, C]. Padding may differ at the ends.
void ConvolveDepthwise(const Device& device, const ConvolutionShape& shape, const ConvolutionOperands& operands);
// `width`: channels that a thread takes, `tile`: neighbours of a row that it makes.
KernelSource DepthwiseSource(const ConvolutionShape& shape, int width, int tile);

}  // namespace ferry::cuda

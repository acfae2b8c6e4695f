// x · cos + turned(x) · sin, where turned(x) is (−b, a) for the pairs (a, b) of the last axis.
#pragma once

#include "providers/cuda/launch.h"
#include "tensor/tensor.h"

namespace ferry::cuda {

// At most four outer axes, which broadcast; cosines and sines are as wide as x, or half as wide: one for each pair.
bool CanRotate(const Shape& x, const Shape& cosines, const Shape& sines);
void Rotate(const Device& device, bool interleaved, const Tensor& x, const Tensor& cosines, const Tensor& sines,
            Tensor& y);

std::vector<KernelSource> RotarySources();

}  // namespace ferry::cuda

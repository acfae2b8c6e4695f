// Rows normalised and channels-last images pooled 16 bytes at a time, for what is aligned so; the kernels of kernels.h
// take everything else.
#pragma once

#include "providers/cuda/kernels.h"

namespace ferry::cuda {

// As NormalizeRows and RunPool; false: sizes or addresses do not allow it, and nothing was done.
bool NormalizePacks(const Device& device, int64_t count, float epsilon, bool centered, const Tensor& x,
                    const Tensor* scale, const Tensor* bias, Tensor& y);
bool PoolPacks(const Device& device, const Pool& pool, const Tensor& x, Tensor& y);

std::vector<KernelSource> PackSources();

}  // namespace ferry::cuda

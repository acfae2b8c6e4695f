// c = c · scale + residual for rows that a product has just left in the cache.
#pragma once

#include "kernels/elementwise.h"

namespace ferry {

// `stride` is that of c and of the residual, which may be null.
inline void ScaleRows(const float* scale, const float* residual, int64_t rows, int64_t columns, int64_t stride,
                      float* c) {
  const ElementwiseKernels& kernels = BestElementwiseKernels();
  for (int64_t row = 0; row < rows; ++row, c += stride) {
    kernels.binary(BinaryKind::kMultiply, c, true, scale, true, c, columns);
    if (residual) kernels.binary(BinaryKind::kAdd, c, true, residual + row * stride, true, c, columns);
  }
}

}  // namespace ferry

// ONNX's sparse tensors are an encoding: kernels see dense ones.
#pragma once

#include "graph/model.h"

namespace ferry {

// Zeros but for the stored values. Indices, linear or by axis, are checked.
Tensor DenseTensor(const StoredSparseTensor& sparse);

}  // namespace ferry

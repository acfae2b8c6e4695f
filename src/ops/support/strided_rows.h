// Tensors whose rows (along the last axis) are parts of longer ones, as those of a Concat's parts are that lie in its
// result already. A Tensor knows nothing of it: whoever is handed one is told beforehand.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace ferry {

struct StridedRows {
  Shape shape;         // of the tensor that lies so. One that turns out to have another shape has memory of its own.
  int64_t stride = 0;  // elements from one row to the next; 0: rows lie one after the other

  int64_t StrideOf(const Tensor& tensor) const;
};

// The first output's and some or all of the inputs'.
struct RowLayout {
  std::vector<StridedRows> inputs;
  StridedRows output;

  int64_t InputStride(size_t i, const Tensor& tensor) const;
};

}  // namespace ferry

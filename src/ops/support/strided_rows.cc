#include "ops/support/strided_rows.h"

namespace ferry {

int64_t StridedRows::StrideOf(const Tensor& tensor) const {
  if (stride > 0 && tensor.shape() == shape) return stride;
  return tensor.rank() == 0 ? 1 : tensor.shape().back();
}

int64_t RowLayout::InputStride(size_t i, const Tensor& tensor) const {
  return (i < inputs.size() ? inputs[i] : StridedRows()).StrideOf(tensor);
}

}  // namespace ferry

// Index tensors, checked once before anything is addressed with them.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace ferry {

// An index in [-size, size) as one in [0, size); anything else is an error that names the value, the axis and the size.
inline int64_t CheckedIndex(int64_t index, int64_t size, size_t axis) {
  Require(index >= -size && index < size, "index ", index, " is out of range for axis ", axis, " of size ", size);
  return index < 0 ? index + size : index;
}

// The elements of an int32 or int64 tensor as checked indices into an axis of `size`.
std::vector<int64_t> CheckedIndices(const Tensor& indices, int64_t size, size_t axis);

// The elements of a rank-0 or rank-1 integer tensor; `what` names the input in errors.
std::vector<int64_t> IntegerList(const Tensor& tensor, const char* what);

// For every index tuple (the last axis of `indices`) the offset in elements of the part of `data` it selects, batch by
// batch over the first `batch_dims` axes. The shapes must already have been checked.
std::vector<int64_t> TupleOffsets(const Tensor& indices, const Shape& data, size_t batch_dims);

}  // namespace ferry

// Tensors that lie in a file may begin at any byte; C++ must not read a float from an odd address.
#pragma once

#include <algorithm>

#include "tensor/tensor.h"

namespace ferry {

inline size_t AlignmentOf(DType type) {
  int bits = IsComplex(type) ? BitWidth(type) / 2 : BitWidth(type);
  return static_cast<size_t>(std::max(bits / 8, 1));
}

// Whether elements can be read where they lie.
inline bool IsReadable(const Tensor& tensor) {
  return !tensor.defined() || tensor.dtype() == DType::kString || tensor.IsAligned(AlignmentOf(tensor.dtype()));
}

// This tensor where its elements can be read, else a copy.
inline Tensor Readable(const Tensor& tensor) { return IsReadable(tensor) ? tensor : tensor.Clone(); }

}  // namespace ferry

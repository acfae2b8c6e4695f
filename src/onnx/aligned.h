// Tensors that lie in a file may begin at any byte; C++ must not read a float from an odd address.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace ferry {

// Tensors up to this size are never left unaligned by the reader: shapes, axes and scalars are read all over the house.
inline constexpr size_t kSmallTensorBytes = 4096;

// This tensor when its elements can be read in place, else a copy; strings are always as they are. The
// pages of a mapped tensor that was copied are given back to the system.
Tensor AlignedForUse(const Tensor& tensor);
// The same for all weights of a model, by several threads; the copies lie in large pages, which go when the last of
// these tensors does.
void AlignForUse(std::vector<Tensor*> tensors, int threads);

// What readers hand out for elements that lie in a file: small tensors aligned, bools that are 0 or 1, the rest as it
// is.
Tensor MakeReadable(const Tensor& view);

}  // namespace ferry

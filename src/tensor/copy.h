// Elements from one tensor to another, wherever each lies.
#pragma once

#include "tensor/tensor.h"

namespace ferry {

// Of the same type and size; they may overlap.
void CopyBytes(const Tensor& from, Tensor& to);

}  // namespace ferry

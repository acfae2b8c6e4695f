// The elements of tensors in the plainest form they fit in, for code that looks at numbers of any type.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace ferry {

// Small floats as float, packed integers one to a byte, all else as it is.
Tensor PlainElements(const Tensor& tensor);
// Every element of a tensor of real numbers or bools.
std::vector<double> ToDoubles(const Tensor& tensor);

}  // namespace ferry

// Numbers of any type as unsigned integers that sort the same way, so that sorting is compiled once.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace ferry {

// Keys per element: two for complex numbers (real, then imaginary), one for everything else.
size_t KeysPerElement(DType dtype);
// Equal elements get equal keys and smaller ones smaller keys. -0.0 equals 0.0; all NaNs are equal and come last.
std::vector<uint64_t> OrderKeys(const Tensor& tensor);

}  // namespace ferry

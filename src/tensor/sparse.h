#pragma once

#include "tensor/value.h"

namespace ferry {

// Throws when values and indices do not go together, or an index lies outside of the shape: kernels rely on it.
void CheckSparse(const SparseTensor& sparse);

}  // namespace ferry

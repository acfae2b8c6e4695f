// Products of a few rows by a matrix, as one token or one image has them: all that counts is to read the matrix once,
// at the speed of the memory.
#pragma once

#include "providers/cuda/product.h"

namespace ferry::cuda {

bool TakesFewRows(const ProductShape& shape, const ProductOperands& operands);
void MultiplyFewRows(const Device& device, const ProductShape& shape, const ProductOperands& operands);

std::vector<KernelSource> FewRowsSources();

}  // namespace ferry::cuda

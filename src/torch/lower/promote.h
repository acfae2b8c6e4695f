// PyTorch's type promotion.
#pragma once

#include <variant>
#include <vector>

#include "torch/lower/scalar.h"

namespace ferry::torch {

// A tensor or a Python number: what most binary operators take on either side.
using TensorOrNumber = std::variant<Operand, Scalar>;

// torch.promote_types
DType PromoteTypes(DType a, DType b);
// torch.result_type: tensors with dimensions outrank scalar tensors, which outrank Python numbers, unless the lower one
// is of a higher kind (bool < integer < float < complex).
DType ResultType(const std::vector<TensorOrNumber>& values);
// The type an operator that computes in floating point gives: integers become float.
inline DType FloatingResult(DType dtype) { return IsFloating(dtype) || IsComplex(dtype) ? dtype : DType::kFloat; }
// complex64 → float, complex128 → double; others stay.
DType RealType(DType dtype);
DType ComplexType(DType dtype);

}  // namespace ferry::torch

// Element type conversion, as the Cast operator defines it.
#pragma once

#include "tensor/small_float.h"
#include "tensor/tensor.h"

namespace ferry {

struct CastOptions {
  Overflow float8_overflow = Overflow::kSaturate;
  ScaleRounding scale_rounding = ScaleRounding::kUp;
};

// Shares storage when nothing changes. Complex types only convert to themselves.
Tensor CastTensor(const Tensor& tensor, DType type, const CastOptions& options = {});
void CastInto(const Tensor& from, Tensor& to, const CastOptions& options = {});
// The same for elements [begin, end) alone: both types must fill whole bytes.
void CastRange(const Tensor& from, Tensor& to, int64_t begin, int64_t end, const CastOptions& options = {});

}  // namespace ferry

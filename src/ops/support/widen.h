// Floats narrower than float are computed in float: widen the inputs, run the float kernel, narrow the result.
#pragma once

#include "tensor/tensor.h"

namespace ferry {

// float and double as they are; float16, bfloat16, float8, float6, float4 as float. Other types are an error.
Tensor WidenToFloat(const Tensor& tensor);
// A float tensor as `type` (a float type), rounded to nearest; shares storage when it is float already.
Tensor NarrowFromFloat(const Tensor& tensor, DType type);
void NarrowInto(const Tensor& from, Tensor& to);
// What arithmetic on `type` is done in: float for small floats, the type itself otherwise.
DType ComputeType(DType type);

// The same for a run of elements of a type that fills whole bytes.
void WidenRun(DType type, const void* from, float* to, int64_t count);
void NarrowRun(DType type, const float* from, void* to, int64_t count);

}  // namespace ferry

// numpy.matmul's rules about shapes: vectors, stacks of matrices, broadcasting.
#pragma once

#include <vector>

#include "kernels/gemm.h"
#include "ops/infer_context.h"
#include "tensor/shape.h"

namespace ferry {

struct MatMulPlan {
  int64_t m = 1, n = 1, k = 0;
  Shape output;
  std::vector<GemmBatch> batches;  // one per matrix of the result
};

MatMulPlan PlanMatMul(const Shape& a, const Shape& b);
// Sets output 0 from the shapes of these two inputs.
void InferMatMul(InferContext& context, size_t a_input, size_t b_input, DType dtype);

}  // namespace ferry

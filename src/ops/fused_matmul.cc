// FusedMatMul: activation(A · B + bias + residual) or (A · B + bias) · scale + residual for float, B a matrix, of
// float16 where passes/widen_halves leaves it so. Made by passes/fuse_matmul.
#include <utility>

#include "kernels/packed_gemm.h"
#include "ops/operator.h"
#include "ops/support/fused.h"
#include "ops/support/scale_rows.h"
#include "ops/support/widen.h"

namespace ferry {

static void InferFusedMatMul(InferContext& context) {
  const SymbolicShape* a = context.InputShape(0);
  const SymbolicShape* b = context.InputShape(1);
  if (!a || !b || a->empty() || b->size() != 2) return context.SetOutput(0, DType::kFloat);
  SymbolicShape shape = *a;
  shape.back() = (*b)[context.node().Int("transB", 0) ? 0 : 1];
  context.SetOutput(0, DType::kFloat, std::move(shape));
}

// Packs B anew at every run; the engine's kernel (providers/cpu/matmul.cc) does it once.
static void ComputeFusedMatMul(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor b = WidenToFloat(context.Input(1));
  Require(a.rank() >= 1 && b.rank() == 2, "needs a matrix on the right: ", a.shape(), " × ", b.shape());
  bool transposed = context.node().Int("transB", 0) != 0;
  int64_t depth = b.dim(transposed ? 1 : 0), columns = b.dim(transposed ? 0 : 1);
  Require(a.shape().back() == depth, "inner sizes differ: ", a.shape(), " × ", b.shape());
  Shape shape = a.shape();
  shape.back() = columns;
  Tensor& c = context.Output(0, DType::kFloat, shape);
  int64_t rows = a.shape().CountBetween(0, a.rank() - 1);
  Tensor packed(DType::kFloat, {PackedSize(depth, columns)});
  PackMatrix(b.Data<float>(), depth, columns, transposed ? 1 : columns, transposed ? depth : 1,
             packed.MutableData<float>());
  GemmEpilogue epilogue;
  if (const Tensor* bias = context.OptionalInput(2)) epilogue.bias = bias->Data<float>();
  if (const Tensor* residual = context.OptionalInput(3)) {
    Require(residual->size() == rows * columns, "residual of shape ", residual->shape(), " does not fit result ",
            shape);
    epilogue.residual = residual->Data<float>();
  }
  const Tensor* scale = context.OptionalInput(4);
  const float* residual = scale ? std::exchange(epilogue.residual, nullptr) : nullptr;
  epilogue.residual_stride = columns;
  epilogue.activation = ActivationOf(context.node());
  BestGemmKernels().plain(a.Data<float>(), depth, rows, depth, packed.Data<float>(), columns, c.MutableData<float>(),
                          columns, epilogue);
  if (scale) ScaleRows(scale->Data<float>(), residual, rows, columns, columns, c.MutableData<float>());
}

FERRY_OPERATOR_IN(internal, FusedMatMul,
                  {.compute = ComputeFusedMatMul, .infer = InferFusedMatMul, .reads_anywhere = kInput1});

}  // namespace ferry

// FusedMatMul: activation(A · B + bias + residual) for float, B a matrix. Made by passes/fuse_matmul.
#include "kernels/packed_gemm.h"
#include "ops/operator.h"
#include "ops/support/fused.h"

namespace ferry {

static void InferFusedMatMul(InferContext& context) {
  const SymbolicShape* a = context.InputShape(0);
  const SymbolicShape* b = context.InputShape(1);
  if (!a || !b || a->empty() || b->size() != 2) return context.SetOutput(0, DType::kFloat);
  SymbolicShape shape = *a;
  shape.back() = (*b)[1];
  context.SetOutput(0, DType::kFloat, std::move(shape));
}

// Packs B anew at every run; the engine's kernel (engine/cpu/matmul.cc) does it once.
static void ComputeFusedMatMul(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& b = context.Input(1);
  Require(a.rank() >= 1 && b.rank() == 2 && a.shape().back() == b.dim(0), "inner sizes differ: ", a.shape(), " × ", b.shape());
  Shape shape = a.shape();
  shape.back() = b.dim(1);
  Tensor& c = context.Output(0, DType::kFloat, shape);
  int64_t depth = b.dim(0), columns = b.dim(1), rows = a.shape().CountBetween(0, a.rank() - 1);
  Tensor packed(DType::kFloat, {PackedSize(depth, columns)});
  PackMatrix(b.Data<float>(), depth, columns, columns, 1, packed.MutableData<float>());
  GemmEpilogue epilogue;
  if (const Tensor* bias = context.OptionalInput(2)) epilogue.bias = bias->Data<float>();
  if (const Tensor* residual = context.OptionalInput(3)) epilogue.residual = residual->Data<float>();
  epilogue.residual_stride = columns;
  epilogue.activation = ActivationOf(context.node());
  BestGemmKernels().plain(a.Data<float>(), depth, rows, depth, packed.Data<float>(), columns, c.MutableData<float>(),
                          columns, epilogue);
}

FERRY_OPERATOR(FusedMatMul, {.domain = kInternalDomain, .compute = ComputeFusedMatMul, .infer = InferFusedMatMul});

}  // namespace ferry

// BlockedMatMul: rows times weights of 4 or 8 bits in blocks, which DequantizeLinear would make floats of. Made by
// passes/fuse_blocked_matmul.
#include "ops/support/blocked_matmul.h"

#include "ops/operator.h"
#include "ops/support/bit_matrix.h"

namespace ferry {
namespace {

void ComputeBlockedMatMul(OpContext& context) {
  const Tensor& a = context.Input(0);
  const BlockedWeights weights(context.node(), context.Input(1), context.Input(2), context.OptionalInput(3));
  Require(a.dtype() == DType::kFloat && a.rank() >= 1 && a.shape().back() == weights.depth, "rows ", a.dtype(),
          a.shape(), " must have ", weights.depth, " columns");
  const Tensor* bias = context.OptionalInput(4);
  Require(!bias || (bias->dtype() == DType::kFloat && bias->size() == weights.columns), "the bias must have ",
          weights.columns, " floats");
  Shape shape = a.shape();
  shape.back() = weights.columns;
  Tensor& y = context.Output(0, DType::kFloat, shape);
  const int middle = 1 << (weights.bits - 1);
  auto load = [&](int64_t column, float* out) {
    for (int64_t k = 0; k < weights.depth; ++k) {
      const int64_t at = k / weights.block;
      const int number = static_cast<int>(weights.Number(column, k)) - middle - weights.Zero(column, at);
      out[k] = static_cast<float>(number) * weights.Scale(column, at);
    }
  };
  MultiplyByRows(context, a.Data<float>(), a.size() / weights.depth, weights.columns, weights.depth, load,
                 bias ? bias->Data<float>() : nullptr, y.MutableData<float>());
}

void InferBlockedMatMul(InferContext& context) {
  const SymbolicShape *a = context.InputShape(0), *w = context.InputShape(1);
  if (!a || a->empty() || !w || w->size() != 2) return context.SetOutput(0, DType::kFloat);
  SymbolicShape shape = *a;
  shape.back() = (*w)[context.node().Int("transposed", 0) != 0 ? 0 : 1];
  context.SetOutput(0, DType::kFloat, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(internal, BlockedMatMul, {.compute = ComputeBlockedMatMul, .infer = InferBlockedMatMul});

}  // namespace ferry

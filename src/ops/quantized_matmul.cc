// QuantizedMatMul: rows of bytes times an 8-bit matrix without a zero point (ops/support/quantized_step.h). Inputs: a
// […, K], w (int8, [K, N] or with transB [N, K]), factor [N], bias [N] or none.
#include "ops/operator.h"
#include "ops/support/fused.h"
#include "ops/support/quantized_step.h"

namespace ferry {
namespace {

void ComputeQuantizedMatMul(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& w = context.Input(1);
  bool turned = context.node().Int("transB", 0) != 0;
  QuantizedStep step = QuantizedStep::Read(context.node());
  Require(IsByte(a.dtype()) && w.dtype() == DType::kInt8, "a must be bytes and w int8");
  Require(a.rank() >= 1 && w.rank() == 2 && a.shape().back() == w.dim(turned ? 1 : 0), "a of shape ", a.shape(),
          " cannot be multiplied by w of shape ", w.shape());
  int64_t depth = a.shape().back(), count = w.dim(turned ? 0 : 1);
  QuantizedColumns columns(step, context.Input(2), context.OptionalInput(3), count);
  Shape shape = a.shape();
  shape.back() = count;
  void* y = context.Output(0, step.y_type, shape).mutable_raw();
  int64_t rows = shape.CountBetween(0, shape.rank() - 1);
  context.ParallelFor(rows, 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      for (int64_t n = 0; n < count; ++n) {
        uint32_t sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          int32_t weight = w.Data<int8_t>()[turned ? n * depth + k : k * count + n];
          sum += static_cast<uint32_t>((ByteAt(a, row * depth + k) - step.x_zero) * weight);
        }
        columns.Store(sum, n, row * count + n, y);
      }
  });
}

void InferQuantizedMatMul(InferContext& context) {
  DType type = QuantizedStep::Read(context.node()).y_type;
  const SymbolicShape* a = context.InputShape(0);
  const SymbolicShape* w = context.InputShape(1);
  if (!a || !w || a->empty() || w->size() != 2) return context.SetOutput(0, type);
  SymbolicShape shape = *a;
  shape.back() = (*w)[context.node().Int("transB", 0) != 0 ? 0 : 1];
  context.SetOutput(0, type, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(internal, QuantizedMatMul, {.compute = ComputeQuantizedMatMul, .infer = InferQuantizedMatMul});

}  // namespace ferry

// DynamicMatMul: Σ (a - a_zero) · (w - w_zero), times a_scale · w_scale, plus bias. Inputs: a […, K] and w [K, N] of
// bytes, a_zero, w_zero, a_scale (one float), w_scale and bias (one float or N; may be omitted, as the zero points
// may). Made by passes/fuse_dynamic_matmul.
#include "ops/operator.h"
#include "ops/support/fused.h"
#include "ops/support/quantized.h"
#include "ops/support/quantized_step.h"

namespace ferry {
namespace {

const float* PerColumn(const Tensor* tensor, int64_t columns, const char* what) {
  if (!tensor) return nullptr;
  Require(tensor->size() == 1 || tensor->size() == columns, what, " has shape ", tensor->shape(), ", there are ",
          columns, " columns");
  return tensor->Data<float>();
}

void ComputeDynamicMatMul(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& w = context.Input(1);
  Require(IsByte(a.dtype()) && IsByte(w.dtype()), "a and w must be bytes");
  Require(a.rank() >= 1 && w.rank() == 2 && a.shape().back() == w.dim(0), "a of shape ", a.shape(),
          " cannot be multiplied by w of shape ", w.shape());
  int64_t depth = w.dim(0), columns = w.dim(1);
  std::vector<int32_t> a_zeros = ZeroPoints(context.OptionalInput(2), a.dtype()),
                       w_zeros = ZeroPoints(context.OptionalInput(3), w.dtype());
  Require(a_zeros.size() == 1, "a has one zero point");
  Require(w_zeros.size() == 1 || static_cast<int64_t>(w_zeros.size()) == columns, "w has one zero point per column");
  Require(context.Input(4).size() == 1, "a_scale must be a scalar, has shape ", context.Input(4).shape());
  float a_scale = *context.Input(4).Data<float>();
  const Tensor *w_scale = context.OptionalInput(5), *bias = context.OptionalInput(6);
  const float *scales = PerColumn(w_scale, columns, "w_scale"), *added = PerColumn(bias, columns, "the bias");
  Shape shape = a.shape();
  shape.back() = columns;
  float* y = context.Output(0, DType::kFloat, shape).MutableData<float>();
  context.ParallelFor(shape.CountBetween(0, shape.rank() - 1), 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      for (int64_t n = 0; n < columns; ++n) {
        int32_t w_zero = w_zeros[w_zeros.size() == 1 ? 0 : static_cast<size_t>(n)];
        uint32_t sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum +=
              static_cast<uint32_t>((ByteAt(a, row * depth + k) - a_zeros[0]) * (ByteAt(w, k * columns + n) - w_zero));
        float factor = a_scale * (scales ? scales[w_scale->size() == 1 ? 0 : n] : 1.0f);
        float shift = added ? added[bias->size() == 1 ? 0 : n] : 0.0f;
        y[row * columns + n] = static_cast<float>(static_cast<int32_t>(sum)) * factor + shift;
      }
  });
}

void InferDynamicMatMul(InferContext& context) {
  const SymbolicShape* a = context.InputShape(0);
  const SymbolicShape* w = context.InputShape(1);
  if (!a || !w || a->empty() || w->size() != 2) return context.SetOutput(0, DType::kFloat);
  SymbolicShape shape = *a;
  shape.back() = w->back();
  context.SetOutput(0, DType::kFloat, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(internal, DynamicMatMul, {.compute = ComputeDynamicMatMul, .infer = InferDynamicMatMul});

}  // namespace ferry

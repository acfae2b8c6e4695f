#include "ops/support/matmul.h"

#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"
#include "tensor/small_float.h"

namespace ferry {
namespace {

template <class T>
void MultiplyPlain(const OpContext& context, const MatMulPlan& plan, const Tensor& a, const Tensor& b, Tensor& y) {
  Gemm<T>({.m = plan.m,
           .n = plan.n,
           .k = plan.k,
           .a = reinterpret_cast<const T*>(a.raw()),
           .a_row = plan.k,
           .b = reinterpret_cast<const T*>(b.raw()),
           .b_row = plan.n,
           .c = reinterpret_cast<T*>(y.mutable_raw()),
           .c_row = plan.n,
           .c_batch = plan.m * plan.n,
           .batches = plan.batches},
          context.services().pool);
}

// Small floats are widened block by block on their way into the product: no wide copy of the weights.
template <class Stored>
void MultiplySmall(const OpContext& context, const MatMulPlan& plan, const Tensor& a, const Tensor& b, Tensor& y) {
  Tensor wide(DType::kFloat, y.shape());
  std::vector<int64_t> a_offsets, b_offsets;
  for (const GemmBatch& batch : plan.batches) {
    a_offsets.push_back(batch.a);
    b_offsets.push_back(batch.b);
  }
  auto widen = [](Stored value, int64_t, int64_t) { return ToFloat(value); };
  StridedSource<float, Stored, decltype(widen)> a_source(a.Data<Stored>(), plan.k, 1, a_offsets, widen);
  StridedSource<float, Stored, decltype(widen)> b_source(b.Data<Stored>(), 1, plan.n, b_offsets, widen);
  PanelGemm<float>({.m = plan.m,
                    .n = plan.n,
                    .k = plan.k,
                    .batches = static_cast<int64_t>(plan.batches.size()),
                    .a = &a_source,
                    .b = &b_source,
                    .c = wide.MutableData<float>(),
                    .c_row = plan.n,
                    .c_batch = plan.m * plan.n},
                   context.services().pool);
  NarrowInto(wide, y);
}

void ComputeMatMul(OpContext& context) {
  const Tensor& a = context.Input(0);
  // Weights of halves stay so among floats, see passes/widen_halves.
  const bool widens = a.dtype() == DType::kFloat && context.Input(1).dtype() == DType::kFloat16;
  const Tensor b = widens ? WidenToFloat(context.Input(1)) : context.Input(1);
  Require(a.dtype() == b.dtype(), "the factors have different types: ", a.dtype(), " and ", b.dtype());
  MatMulPlan plan = PlanMatMul(a.shape(), b.shape());
  Tensor& y = context.Output(0, a.dtype(), plan.output);
  if (y.size() == 0) return;
  switch (a.dtype()) {
    case DType::kFloat: return MultiplyPlain<float>(context, plan, a, b, y);
    case DType::kDouble: return MultiplyPlain<double>(context, plan, a, b, y);
    case DType::kInt32:
    case DType::kUInt32: return MultiplyPlain<uint32_t>(context, plan, a, b, y);
    case DType::kInt64:
    case DType::kUInt64: return MultiplyPlain<uint64_t>(context, plan, a, b, y);
    case DType::kFloat16: return MultiplySmall<Float16>(context, plan, a, b, y);
    case DType::kBFloat16: return MultiplySmall<BFloat16>(context, plan, a, b, y);
    default: Fail(ErrorCode::kUnsupported, "element type ", a.dtype(), " is not one MatMul is defined for");
  }
}

void InferMatrixProduct(InferContext& context) { InferMatMul(context, 0, 1, context.InputDType(0)); }

}  // namespace

FERRY_OPERATOR(MatMul, {.compute = ComputeMatMul, .infer = InferMatrixProduct, .reads_anywhere = kInput1});

}  // namespace ferry

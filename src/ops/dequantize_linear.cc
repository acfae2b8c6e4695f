#include <type_traits>

#include "ops/support/cast_tensor.h"
#include "ops/support/elementwise.h"
#include "ops/support/scale_runs.h"

namespace ferry {
namespace {

// Integers are subtracted exactly before they become floats.
template <class T>
using Difference =
    std::conditional_t<std::is_floating_point_v<T>, float, std::conditional_t<sizeof(T) == 4, int64_t, int32_t>>;

template <class T>
void DequantizeRun(const ScaleRun& run, const T* x, const float* scale, const T* zero_point, float* y) {
  using D = Difference<T>;
  x += run.first;
  y += run.first;
  scale += run.scale;
  if (zero_point) zero_point += run.scale;
  if (run.advances) {
    for (int64_t i = 0; i < run.count; ++i)
      y[i] = static_cast<float>(D{x[i]} - (zero_point ? D{zero_point[i]} : D{0})) * scale[i];
  } else {
    const D zero = zero_point ? D{*zero_point} : D{0};
    const float factor = *scale;
    for (int64_t i = 0; i < run.count; ++i) y[i] = static_cast<float>(D{x[i]} - zero) * factor;
  }
}

// Types without storage of their own, or narrower than a byte, are brought to one that has loops.
Tensor Plain(const Tensor& tensor) {
  if (IsFloating(tensor.dtype())) return CastTensor(tensor, DType::kFloat);
  return IsPacked(tensor.dtype()) ? tensor.Unpacked() : tensor;
}

DType DequantizedType(const Node& node, DType scale) {
  // A scale that is only a power of two has no type for results.
  DType type = TypeAttribute(node, "output_dtype", scale == DType::kFloat8E8M0 ? DType::kFloat : scale);
  Require(type == DType::kUndefined || type == DType::kFloat || type == DType::kFloat16 || type == DType::kBFloat16,
          "the result cannot be ", type);
  return type;
}

void ComputeDequantizeLinear(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& scale = context.Input(1);
  const Tensor* zero_point = context.OptionalInput(2);
  Require(!zero_point || zero_point->dtype() == x.dtype(), "the zero point must be ", x.dtype(),
          " as the input is, got ", zero_point ? zero_point->dtype() : x.dtype());
  Require(!IsFloating(x.dtype()) || (BitWidth(x.dtype()) <= 8 && x.dtype() != DType::kFloat8E8M0), x.dtype(),
          " is not a quantized type");
  ScaleRuns runs(context.node(), x.shape(), scale, zero_point);
  Tensor& y = context.Output(0, DequantizedType(context.node(), scale.dtype()), x.shape());
  Tensor values = y.dtype() == DType::kFloat ? y : Tensor(DType::kFloat, x.shape());
  Tensor plain = Plain(x), factors = CastTensor(scale, DType::kFloat),
         zeros = zero_point ? Plain(*zero_point) : Tensor();
  Dispatch(TypeList<int8_t, uint8_t, int16_t, uint16_t, int32_t, float>{}, plain.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* zero = zeros.defined() ? zeros.Data<T>() : nullptr;
    runs.ForEach(context, [&](const ScaleRun& run) {
      DequantizeRun(run, plain.Data<T>(), factors.Data<float>(), zero, values.MutableData<float>());
    });
  });
  NarrowInto(values, y);
}

void InferDequantizeLinear(InferContext& context) {
  DType type = DequantizedType(context.node(), context.InputDType(1));
  if (const SymbolicShape* shape = context.InputShape(0)) return context.SetOutput(0, type, *shape);
  context.SetOutput(0, type);
}

}  // namespace

FERRY_OPERATOR(DequantizeLinear, {.compute = ComputeDequantizeLinear, .infer = InferDequantizeLinear});

}  // namespace ferry

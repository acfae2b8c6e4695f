#include "ops/support/widen.h"

#include <cstring>

#include "kernels/elementwise.h"
#include "ops/support/dispatch.h"
#include "tensor/small_float.h"

namespace ferry {
namespace {
using OtherFloats = TypeList<BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0>;
}

DType ComputeType(DType type) { return IsSmallFloat(type) ? DType::kFloat : type; }

void WidenRun(DType type, const void* from, float* to, int64_t count) {
  if (type == DType::kFloat16)
    return BestElementwiseKernels().widen_halves(static_cast<const uint16_t*>(from), to, count);
  Dispatch(OtherFloats{}, type, [&](auto tag) {
    auto* values = static_cast<const typename decltype(tag)::type*>(from);
    for (int64_t i = 0; i < count; ++i) to[i] = ToFloat(values[i]);
  });
}

void NarrowRun(DType type, const float* from, void* to, int64_t count) {
  if (type == DType::kFloat16)
    return BestElementwiseKernels().narrow_to_halves(from, static_cast<uint16_t*>(to), count);
  Dispatch(OtherFloats{}, type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < count; ++i) static_cast<T*>(to)[i] = FromFloat<T>(from[i]);
  });
}

Tensor WidenToFloat(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat || tensor.dtype() == DType::kDouble) return tensor;
  Tensor out(DType::kFloat, tensor.shape());
  float* to = out.MutableData<float>();
  if (IsPackedFloat(tensor.dtype())) {
    Tensor codes = tensor.Unpacked();
    const uint8_t* from = codes.Data<uint8_t>();
    for (int64_t i = 0; i < out.size(); ++i) to[i] = PackedFloatToFloat(tensor.dtype(), from[i]);
  } else {
    WidenRun(tensor.dtype(), tensor.raw(), to, out.size());
  }
  return out;
}

void NarrowInto(const Tensor& from, Tensor& to) {
  Require(from.size() == to.size(), "cannot narrow shape ", from.shape(), " into ", to.shape());
  if (from.dtype() == to.dtype()) {
    if (from.bytes() > 0 && from.raw() != to.raw()) std::memcpy(to.mutable_raw(), from.raw(), from.bytes());
    return;
  }
  const float* values = from.Data<float>();
  if (IsPackedFloat(to.dtype())) {
    Tensor codes(DType::kUInt8, to.shape());
    uint8_t* code = codes.MutableData<uint8_t>();
    for (int64_t i = 0; i < codes.size(); ++i) code[i] = FloatToPackedFloat(to.dtype(), values[i]);
    Tensor packed = Tensor::Pack(to.dtype(), codes);
    if (packed.bytes() > 0) std::memcpy(to.mutable_raw(), packed.raw(), packed.bytes());
  } else {
    NarrowRun(to.dtype(), values, to.mutable_raw(), to.size());
  }
}

Tensor NarrowFromFloat(const Tensor& tensor, DType type) {
  if (tensor.dtype() == type) return tensor;
  Tensor out(type, tensor.shape());
  NarrowInto(tensor, out);
  return out;
}

}  // namespace ferry

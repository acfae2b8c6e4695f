#include "ops/support/widen.h"

#include <cstring>

#include "ops/support/dispatch.h"
#include "tensor/small_float.h"

namespace ferry {
namespace {
using ByteOrWordFloats =
    TypeList<Float16, BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0>;
}

DType ComputeType(DType type) { return IsSmallFloat(type) ? DType::kFloat : type; }

Tensor WidenToFloat(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat || tensor.dtype() == DType::kDouble) return tensor;
  Tensor out(DType::kFloat, tensor.shape());
  float* to = out.MutableData<float>();
  if (tensor.dtype() == DType::kFloat4E2M1) {
    Tensor codes = tensor.Unpacked();
    const uint8_t* from = codes.Data<uint8_t>();
    for (int64_t i = 0; i < out.size(); ++i) to[i] = Float4ToFloat(from[i]);
    return out;
  }
  Dispatch(ByteOrWordFloats{}, tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = tensor.Data<T>();
    for (int64_t i = 0; i < out.size(); ++i) to[i] = ToFloat(from[i]);
  });
  return out;
}

void NarrowInto(const Tensor& from, Tensor& to) {
  Require(from.size() == to.size(), "cannot narrow shape ", from.shape(), " into ", to.shape());
  if (from.dtype() == to.dtype()) {
    if (from.bytes() > 0 && from.raw() != to.raw()) std::memcpy(to.mutable_raw(), from.raw(), from.bytes());
    return;
  }
  const float* values = from.Data<float>();
  if (to.dtype() == DType::kFloat4E2M1) {
    Tensor codes(DType::kUInt8, to.shape());
    uint8_t* code = codes.MutableData<uint8_t>();
    for (int64_t i = 0; i < codes.size(); ++i) code[i] = FloatToFloat4(values[i]);
    Tensor packed = Tensor::Pack(to.dtype(), codes);
    if (packed.bytes() > 0) std::memcpy(to.mutable_raw(), packed.raw(), packed.bytes());
    return;
  }
  Dispatch(ByteOrWordFloats{}, to.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = to.MutableData<T>();
    for (int64_t i = 0; i < to.size(); ++i) out[i] = FromFloat<T>(values[i]);
  });
}

Tensor NarrowFromFloat(const Tensor& tensor, DType type) {
  if (tensor.dtype() == type) return tensor;
  Tensor out(type, tensor.shape());
  NarrowInto(tensor, out);
  return out;
}

}  // namespace ferry

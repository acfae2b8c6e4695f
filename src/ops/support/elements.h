// Addressing single elements by their width: GatherElements, ScatterElements and others that move one element at a
// time.
#pragma once

#include <string>
#include <vector>

#include "ops/support/dispatch.h"
#include "tensor/tensor.h"

namespace ferry {

struct Bytes16 {
  uint64_t low, high;
};

// Calls body with the type that carries one element of a movable tensor: an unsigned integer, Bytes16 or a string.
template <class Body>
void ForEachWidth(DType dtype, const Body& body) {
  switch (BitWidth(dtype)) {
    case 8: return body(TypeTag<uint8_t>{});
    case 16: return body(TypeTag<uint16_t>{});
    case 32: return body(TypeTag<uint32_t>{});
    case 64: return body(TypeTag<uint64_t>{});
    case 128: return body(TypeTag<Bytes16>{});
    default: break;
  }
  if (dtype != DType::kString) Fail(ErrorCode::kInternal, "elements of ", dtype, " cannot be moved one by one");
  body(TypeTag<std::string>{});
}

// The elements under the type that carries them.
template <class T>
const T* RawData(const Tensor& tensor) {
  if constexpr (std::is_same_v<T, std::string>)
    return tensor.Data<std::string>();
  else
    return reinterpret_cast<const T*>(tensor.raw());
}
template <class T>
T* MutableRawData(Tensor& tensor) {
  return const_cast<T*>(RawData<T>(tensor));
}

// Requires an index tensor of data's rank that is no larger than data off the axis.
void CheckElementIndices(const Shape& data, const Shape& indices, size_t axis);
// Where in `data` each element of `indices` points to: its own place with the coordinate along `axis` replaced.
std::vector<int64_t> ElementPlaces(const Tensor& indices, const Shape& data, size_t axis);

}  // namespace ferry

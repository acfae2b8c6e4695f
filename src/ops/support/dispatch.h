// From an element type known while running to one known while compiling.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "tensor/dtype.h"

namespace ferry {

template <class T>
struct TypeTag {
  using type = T;
};

template <class... Ts>
struct TypeList {};

using FloatTypes = TypeList<float, double>;
using SignedTypes = TypeList<int8_t, int16_t, int32_t, int64_t>;
using UnsignedTypes = TypeList<uint8_t, uint16_t, uint32_t, uint64_t>;
using IntegerTypes = TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
// The types arithmetic is compiled for. Smaller floats go through float: see support/widen.h.
using NumberTypes = TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using IndexTypes = TypeList<int32_t, int64_t>;

// Calls body(TypeTag<T>{}) for the T stored under `type`; an element type outside the list is a clear error.
template <class... Ts, class Body>
void Dispatch(TypeList<Ts...>, DType type, const Body& body) {
  bool found = ((kDTypeOf<Ts> == type ? (body(TypeTag<Ts>{}), true) : false) || ...);
  if (!found) Fail(ErrorCode::kUnsupported, "element type ", type, " is not one this operator is defined for");
}

}  // namespace ferry

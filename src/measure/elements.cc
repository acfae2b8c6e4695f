#include "measure/elements.h"

#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {

Tensor PlainElements(const Tensor& tensor) {
  if (IsFloating(tensor.dtype())) return WidenToFloat(tensor);
  return IsPacked(tensor.dtype()) ? tensor.Unpacked() : tensor;
}

std::vector<double> ToDoubles(const Tensor& tensor) {
  // Straight from a file a tensor may lie at any address.
  Tensor plain = PlainElements(tensor.IsAligned(sizeof(double)) ? tensor : tensor.Clone());
  std::vector<double> numbers;
  using Types = TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>;
  Dispatch(Types{}, plain.dtype(), [&](auto tag) {
    auto elements = plain.Span<typename decltype(tag)::type>();
    numbers.assign(elements.begin(), elements.end());
  });
  return numbers;
}

}  // namespace ferry

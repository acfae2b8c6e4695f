#include "ops/support/order_keys.h"

#include <algorithm>
#include <complex>
#include <cstring>

#include "base/work_poll.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

constexpr uint64_t kTopBit = uint64_t{1} << 63;

uint64_t KeyOf(double value) {
  if (value != value) return ~uint64_t{0};
  if (value == 0) value = 0;  // no negative zero
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits & kTopBit ? ~bits : bits | kTopBit;
}

template <class T>
void AppendKeys(const T* data, int64_t count, std::vector<uint64_t>& keys) {
  WorkPoll poll;
  for (int64_t i = 0; i < count; ++i) {
    poll(1);
    if constexpr (std::is_floating_point_v<T>)
      keys.push_back(KeyOf(data[i]));
    else if constexpr (std::is_signed_v<T>)
      keys.push_back(static_cast<uint64_t>(int64_t{data[i]}) ^ kTopBit);
    else
      keys.push_back(data[i]);
  }
}

// The place of each string among the distinct ones.
std::vector<uint64_t> StringKeys(const Tensor& tensor) {
  std::span<const std::string> strings = tensor.Span<std::string>();
  std::vector<std::string_view> sorted(strings.begin(), strings.end());
  WorkPoll poll;
  std::sort(sorted.begin(), sorted.end(), [&](std::string_view a, std::string_view b) {
    poll(16);
    return a < b;
  });
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<uint64_t> keys;
  for (const std::string& text : strings) {
    poll(64);
    keys.push_back(static_cast<uint64_t>(std::lower_bound(sorted.begin(), sorted.end(), text) - sorted.begin()));
  }
  return keys;
}

}  // namespace

size_t KeysPerElement(DType dtype) { return IsComplex(dtype) ? 2 : 1; }

std::vector<uint64_t> OrderKeys(const Tensor& tensor) {
  if (tensor.dtype() == DType::kString) return StringKeys(tensor);
  std::vector<uint64_t> keys;
  keys.reserve(static_cast<size_t>(tensor.size()) * KeysPerElement(tensor.dtype()));
  if (tensor.dtype() == DType::kComplex64) {
    AppendKeys(reinterpret_cast<const float*>(tensor.raw()), tensor.size() * 2, keys);
  } else if (tensor.dtype() == DType::kComplex128) {
    AppendKeys(reinterpret_cast<const double*>(tensor.raw()), tensor.size() * 2, keys);
  } else if (IsSmallFloat(tensor.dtype())) {
    AppendKeys(WidenToFloat(tensor).Data<float>(), tensor.size(), keys);
  } else {
    Dispatch(TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>{},
             tensor.dtype(),
             [&](auto tag) { AppendKeys(tensor.Data<typename decltype(tag)::type>(), tensor.size(), keys); });
  }
  return keys;
}

}  // namespace ferry

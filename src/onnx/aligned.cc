#include "onnx/aligned.h"

#include <algorithm>

#include "base/mapped_file.h"

namespace ferry {
namespace {

size_t AlignmentOf(DType type) {
  int bits = BitWidth(type);
  if (IsComplex(type)) bits /= 2;
  return static_cast<size_t>(std::max(bits / 8, 1));
}

// Memory that a C++ bool is read from may hold 0 and 1 only.
Tensor NormalizedBool(const Tensor& tensor) {
  auto* bytes = reinterpret_cast<const uint8_t*>(tensor.raw());
  bool clean = true;
  for (int64_t i = 0; i < tensor.size(); ++i) clean &= bytes[i] <= 1;
  if (clean) return tensor;
  Tensor copy = tensor.Clone();
  auto* out = reinterpret_cast<uint8_t*>(copy.mutable_raw());
  for (int64_t i = 0; i < copy.size(); ++i) out[i] = out[i] != 0;
  return copy;
}

}  // namespace

Tensor AlignedForUse(const Tensor& tensor) {
  if (!tensor.defined() || tensor.dtype() == DType::kString || tensor.IsAligned(AlignmentOf(tensor.dtype())))
    return tensor;
  Tensor copy = tensor.Clone();
  DropPages(tensor.raw(), tensor.bytes());
  return copy;
}

Tensor MakeReadable(const Tensor& view) {
  if (view.dtype() == DType::kBool) return NormalizedBool(view);
  return view.bytes() <= kSmallTensorBytes ? AlignedForUse(view) : view;
}

}  // namespace ferry

#include "onnx/aligned.h"

#include <algorithm>
#include <cstring>

#include "base/mapped_file.h"
#include "base/pages.h"
#include "base/thread_pool.h"
#include "tensor/alignment.h"

namespace ferry {
namespace {

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

// Piece by piece, so that little of what is read and written is in memory twice.
Tensor CopyInto(const std::shared_ptr<LargePages>& pages, const Tensor& tensor) {
  std::byte* to = pages->Allocate(tensor.bytes());
  Tensor copy = Tensor::Borrow(tensor.dtype(), tensor.shape(), to, pages);
  ReadOnce({tensor.raw(), tensor.bytes()}, [&](std::span<const std::byte> piece) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  });
  return copy;
}

}  // namespace

Tensor AlignedForUse(const Tensor& tensor) {
  if (IsReadable(tensor)) return tensor;
  Tensor copy = tensor.Clone();
  DropPages(tensor.raw(), tensor.bytes());
  return copy;
}

void AlignForUse(std::vector<Tensor*> tensors, int threads) {
  constexpr size_t kWorthPages = size_t{4} << 20;
  std::erase_if(tensors, [](const Tensor* tensor) { return IsReadable(*tensor); });
  size_t bytes = 0;
  for (const Tensor* tensor : tensors) bytes += tensor->bytes();
  if (bytes < kWorthPages) {
    for (Tensor* tensor : tensors) *tensor = AlignedForUse(*tensor);
    return;
  }
  // The largest first, so that no thread is left with one at the end.
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const Tensor* a, const Tensor* b) { return a->bytes() > b->bytes(); });
  const auto pages = std::make_shared<LargePages>();
  ThreadPool pool(threads);
  pool.ParallelFor(static_cast<int64_t>(tensors.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Tensor& tensor = *tensors[static_cast<size_t>(i)];
      tensor = CopyInto(pages, tensor);
    }
  });
}

Tensor MakeReadable(const Tensor& view) {
  if (view.dtype() == DType::kBool) return NormalizedBool(view);
  return view.bytes() <= kSmallTensorBytes ? AlignedForUse(view) : view;
}

}  // namespace ferry

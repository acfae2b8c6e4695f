#include "tensor/memory_space.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/free_soon.h"
#include "tensor/tensor.h"

namespace ferry {

constinit HostMemorySpace host_memory;

std::byte* HostMemorySpace::Allocate(size_t bytes) {
  constexpr auto kLargest = static_cast<size_t>(std::min<uint64_t>(uint64_t{1} << 46, PTRDIFF_MAX));
  if (bytes > kLargest) Fail(ErrorCode::kLimit, "a tensor of ", bytes, " bytes is larger than any machine's memory");
  const size_t rounded = (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  if (rounded == 0) return nullptr;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kTensorAlignment, rounded));
  if (!data) Fail(ErrorCode::kLimit, "no memory for a tensor of ", bytes, " bytes");
  return data;
}

void HostMemorySpace::Free(std::byte* data, size_t bytes) { FreeSoon(data, bytes); }

void HostMemorySpace::CopyInside(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

}  // namespace ferry

// Working memory of a thread that grows to what its kernels need and stays: no allocation in the steady state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "base/pages.h"
#include "tensor/tensor.h"

namespace ferry {

// Every use that may overlap with another on the same thread has a place of its own.
enum class ScratchUse { kRowPointers, kPaddedImage, kWinograd, kWidenedRows, kBf16Rows, kPanels, kScaledRows, kCount };

template <class T>
T* ThreadScratch(ScratchUse use, int64_t count) {
  thread_local std::shared_ptr<Buffer> held[static_cast<size_t>(ScratchUse::kCount)];
  std::shared_ptr<Buffer>& buffer = held[static_cast<size_t>(use)];
  size_t bytes = static_cast<size_t>(count) * sizeof(T);
  const size_t held_bytes = buffer ? buffer->bytes() : 0;
  if (held_bytes < bytes) {
    buffer.reset();
    buffer = Buffer::Allocate(std::max(bytes, 2 * held_bytes));  // not once for each layer that is a little larger
    TakePages(buffer->data(), bytes);
  }
  return reinterpret_cast<T*>(buffer->data());
}

}  // namespace ferry

// Working memory of a thread that grows to what is asked for and stays: no allocation in the steady state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ferry {

// Memory that begins a cache line. What it held is lost when it grows.
class GrowingMemory {
 public:
  GrowingMemory() = default;
  ~GrowingMemory() { Release(); }
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;

  void* AtLeast(size_t bytes) {
    if (bytes > bytes_) [[unlikely]]
      Grow(bytes);
    return data_;
  }

 private:
  void Grow(size_t bytes);  // throws std::bad_alloc
  void Release();

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Memory for `count` elements, uninitialised, until the thread asks for the same use of the same type again. Use is an
// enum class of the caller's that ends with kCount: what is needed at the same time on one thread is different uses.
template <class T, class Use>
T* ThreadScratch(Use use, int64_t count) {
  static_assert(std::is_enum_v<Use> && std::is_trivially_copyable_v<T>);
  thread_local GrowingMemory held[static_cast<size_t>(Use::kCount)];
  return static_cast<T*>(held[static_cast<size_t>(use)].AtLeast(static_cast<size_t>(count) * sizeof(T)));
}

}  // namespace ferry

// Where bytes lie. The host's memory is what the CPU reads and writes; bytes of any other space are reached through
// that space's copies alone.
#pragma once

#include <cstddef>
#include <string_view>

namespace ferry {

class MemorySpace {
 public:
  virtual std::string_view name() const = 0;  // "host", "cuda:0"

  // Uninitialised, aligned for every element type; throws kLimit. Addresses mean nothing to the host.
  virtual std::byte* Allocate(size_t bytes) = 0;
  virtual void Free(std::byte* data, size_t bytes) = 0;

  // All bytes are there when these return.
  virtual void CopyFromHost(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual void CopyToHost(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual void CopyInside(std::byte* to, const std::byte* from, size_t bytes) = 0;

 protected:
  ~MemorySpace() = default;
};

// The memory that this process reads and writes directly.
class HostMemorySpace final : public MemorySpace {
 public:
  std::string_view name() const override { return "host"; }
  std::byte* Allocate(size_t bytes) override;
  void Free(std::byte* data, size_t bytes) override;
  void CopyFromHost(std::byte* to, const std::byte* from, size_t bytes) override { CopyInside(to, from, bytes); }
  void CopyToHost(std::byte* to, const std::byte* from, size_t bytes) override { CopyInside(to, from, bytes); }
  void CopyInside(std::byte* to, const std::byte* from, size_t bytes) override;
};
extern constinit HostMemorySpace host_memory;
inline MemorySpace& HostMemory() { return host_memory; }

}  // namespace ferry

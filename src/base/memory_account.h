// Counts the bytes that one run holds, against a limit. What was allocated during a run keeps its account and gives the
// bytes back when it is freed, which may be long after.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace ferry {

class MemoryAccount {
 public:
  explicit MemoryAccount(size_t limit, std::shared_ptr<MemoryAccount> outer = nullptr)
      : limit_(limit), outer_(std::move(outer)) {}

  // Throws kLimit, and counts nothing, when that would be more than the limit. To be called before memory is taken.
  void Charge(size_t bytes);
  void Credit(size_t bytes);

  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t peak() const { return peak_.load(std::memory_order_relaxed); }
  size_t limit() const { return limit_; }

 private:
  const size_t limit_;
  const std::shared_ptr<MemoryAccount> outer_;  // of the run around this one; charged as well
  std::atomic<size_t> used_{0}, peak_{0};
};

}  // namespace ferry

#include "base/memory_account.h"

#include "base/error.h"

namespace ferry {

void MemoryAccount::Charge(size_t bytes) {
  size_t before = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || before > limit_ - bytes)
      Fail(ErrorCode::kLimit, bytes, " bytes more, beside ", before, " that are in use, exceed the memory limit of ",
           limit_, " bytes; raise it (max_bytes, --memory-limit) if that is meant");
  } while (!used_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  if (outer_) {
    try {
      outer_->Charge(bytes);
    } catch (...) {
      used_.fetch_sub(bytes, std::memory_order_relaxed);
      throw;
    }
  }
  const size_t now = before + bytes;
  size_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void MemoryAccount::Credit(size_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (outer_) outer_->Credit(bytes);
}

}  // namespace ferry

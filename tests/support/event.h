// Something that happens once and that threads wait for: tests put what threads do in order with it, not with time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ferry::testing {

class Event {
 public:
  void Set() {
    {
      std::lock_guard lock(mutex_);
      has_happened_ = true;
    }
    happens_.notify_all();
  }
  // False when it did not happen for so long that it never will.
  bool Wait() {
    std::unique_lock lock(mutex_);
    return happens_.wait_for(lock, std::chrono::seconds(60), [&] { return has_happened_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable happens_;
  bool has_happened_ = false;
};

}  // namespace ferry::testing

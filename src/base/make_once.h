// Something that is made once, by whoever needs it first. Whoever needs it meanwhile waits for that one, and for
// nothing else; a wait ends early when the waiting thread's run does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/error.h"

namespace ferry {

class MakeOnce {
 public:
  bool done() const { return done_.load(std::memory_order_acquire); }

  // Calls make() unless it is done. What it throws reaches its caller and those who wait, who try themselves where only
  // the maker's own run had to end; whoever comes later tries again.
  template <class Make>
  void Do(const Make& make) {
    if (done() || !Begin()) return;
    try {
      make();
    } catch (const Error& error) {
      GiveUp(&error);
      throw;
    } catch (...) {
      GiveUp(nullptr);
      throw;
    }
    Finish();
  }

 private:
  bool Begin();  // true: the caller has to make it, and calls Finish or GiveUp; false: it is there
  void Finish();
  void GiveUp(const Error* error);

  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_being_made_ = false;
  uint64_t failures_ = 0;
  std::optional<Error> failure_;  // the last one; nothing when it is no concern of others
};

}  // namespace ferry

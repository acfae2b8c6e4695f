#include "base/make_once.h"

#include <chrono>

#include "base/check_run.h"

namespace ferry {

bool MakeOnce::Begin() {
  constexpr std::chrono::milliseconds kBetweenLooks{10};
  std::unique_lock lock(mutex_);
  while (!done_) {
    if (!is_being_made_) {
      is_being_made_ = true;
      return true;
    }
    const uint64_t failures = failures_;
    while (!changed_.wait_for(lock, kBetweenLooks, [&] { return done_ || failures_ != failures; })) {
      lock.unlock();
      CheckRun();
      lock.lock();
    }
    if (failures_ != failures && failure_) throw Error(*failure_);
  }
  return false;
}

void MakeOnce::Finish() {
  {
    std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
    is_being_made_ = false;
  }
  changed_.notify_all();
}

void MakeOnce::GiveUp(const Error* error) {
  const bool of_the_maker_alone = !error || error->code() == ErrorCode::kCancelled ||
                                  error->code() == ErrorCode::kDeadline || error->code() == ErrorCode::kLimit;
  {
    std::lock_guard lock(mutex_);
    is_being_made_ = false;
    ++failures_;
    failure_ = of_the_maker_alone ? std::nullopt : std::optional<Error>(*error);
  }
  changed_.notify_all();
}

}  // namespace ferry

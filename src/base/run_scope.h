// What the calling thread works for: a run, or the opening of a model, that may be cancelled, has so much time and so
// much memory. Everything below finds it here instead of in its arguments; loops carry it into the threads of their
// team.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "base/check_run.h"
#include "base/limits.h"

namespace ferry {

class MemoryAccount;

// What the calling thread allocates meanwhile stays longer than the run and is not counted: weights, scratch memory.
class Uncounted {
 public:
  Uncounted() { ++depth_; }
  ~Uncounted() { --depth_; }
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  friend class RunScope;
  static constinit thread_local int depth_;
};

class RunScope {
 public:
  using Clock = std::chrono::steady_clock;

  // Until the end of this object, the calling thread is in the scope; the one it is in now is around it, and ends it
  // too. `what` is named by errors ("the run"). Without Memory::kCounted its limit of bytes is only handed on to
  // sessions that are opened inside.
  enum class Memory { kCounted, kNotCounted };
  RunScope(const char* what, const Limits& limits, const std::atomic<bool>* cancelled = nullptr,
           Memory memory = Memory::kCounted);
  ~RunScope() { current_ = outer_; }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

  static RunScope* Current() { return current_; }
  // Limits of the innermost scope; the usual ones where there is none.
  static const Limits& CurrentLimits();
  // Whether what this thread allocates is charged to an account.
  static bool IsCounted() { return current_ && current_->account_ && Uncounted::depth_ == 0; }
  // Null: it is not.
  static std::shared_ptr<MemoryAccount> CurrentAccount() { return IsCounted() ? current_->account_ : nullptr; }

  const Limits& limits() const { return limits_; }
  const std::shared_ptr<MemoryAccount>& account() const { return account_; }
  bool may_stop() const { return may_stop_; }
  void Check() const;
  // One more turn of a loop; throws kLimit.
  void CountIteration(int64_t count = 1);

 private:
  friend class InScope;
  static constinit thread_local RunScope* current_;

  [[noreturn]] void FailDeadline() const;

  RunScope* const outer_;
  const char* const what_;
  const Limits limits_;
  const std::atomic<bool>* const cancelled_;
  const bool may_stop_;
  Clock::time_point deadline_;
  std::shared_ptr<MemoryAccount> account_;
  std::atomic<int64_t> iterations_{0};
};

// Puts a thread of a team into the scope of whoever started its loop.
class InScope {
 public:
  explicit InScope(RunScope* scope) : before_(RunScope::current_) { RunScope::current_ = scope; }
  ~InScope() { RunScope::current_ = before_; }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  RunScope* const before_;
};

}  // namespace ferry

#include "base/run_scope.h"

#include "base/error.h"
#include "base/memory_account.h"

namespace ferry {

constinit thread_local RunScope* RunScope::current_ = nullptr;

constinit thread_local int Uncounted::depth_ = 0;

void CheckRun() {
  if (const RunScope* scope = RunScope::Current(); scope && scope->may_stop()) scope->Check();
}

RunScope::RunScope(const char* what, const Limits& limits, const std::atomic<bool>* cancelled, Memory memory)
    : outer_(current_),
      what_(what),
      limits_(limits),
      cancelled_(cancelled),
      may_stop_(cancelled || limits.time.count() > 0 || (outer_ && outer_->may_stop_)) {
  if (limits_.time.count() > 0) deadline_ = Clock::now() + limits_.time;
  if (limits_.bytes > 0 && memory == Memory::kCounted)
    account_ = std::make_shared<MemoryAccount>(limits_.bytes, outer_ ? outer_->account_ : nullptr);
  else if (outer_)
    account_ = outer_->account_;
  current_ = this;
}

const Limits& RunScope::CurrentLimits() {
  static const Limits usual;
  return current_ ? current_->limits_ : usual;
}

void RunScope::Check() const {
  if (cancelled_ && cancelled_->load(std::memory_order_relaxed)) Fail(ErrorCode::kCancelled, what_, " was cancelled");
  if (limits_.time.count() > 0 && Clock::now() >= deadline_) FailDeadline();
  if (outer_) outer_->Check();
}

void RunScope::FailDeadline() const {
  Fail(ErrorCode::kDeadline, what_, " takes longer than its time limit of ",
       std::chrono::duration<double>(limits_.time).count(), " s; raise it (time_limit, --time-limit) if that is meant");
}

void RunScope::CountIteration(int64_t count) {
  const int64_t before = iterations_.fetch_add(count, std::memory_order_relaxed);
  if (count > limits_.iterations || before > limits_.iterations - count)
    Fail(ErrorCode::kLimit, "the loops of ", what_, " have made ", limits_.iterations,
         " turns without an end; raise the limit (max_iterations, --max-iterations) if that is meant");
}

}  // namespace ferry

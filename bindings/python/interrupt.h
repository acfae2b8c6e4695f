// Ctrl-C ends a run on the main thread.
#pragma once

#include <atomic>

namespace ferry::python {

// Looks up what is needed of Python; to be called once, when the module is loaded.
void PrepareInterrupts();

// While it lives, on the main thread and with Python's usual handler in place, SIGINT also sets a flag. Python's own
// handler is called as well, so that KeyboardInterrupt is raised when the run returns. A handler of the user's own is
// left alone: whether the run goes on is his choice.
class InterruptGuard {
 public:
  // `flag` is set by Ctrl-C; needs the interpreter's lock.
  explicit InterruptGuard(std::atomic<bool>& flag);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool watching() const { return watching_; }

 private:
  bool watching_;
};

}  // namespace ferry::python

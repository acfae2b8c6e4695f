#include "interrupt.h"

#include <pybind11/pybind11.h>
#include <signal.h>

#include <chrono>

namespace ferry::python {
namespace {

namespace py = pybind11;

std::atomic<std::atomic<bool>*> flag_to_set{nullptr};
struct sigaction python_action;  // what was in place before ours

void OnInterrupt(int signal) {
  if (std::atomic<bool>* flag = flag_to_set.load(std::memory_order_relaxed))
    flag->store(true, std::memory_order_relaxed);
  python_action.sa_handler(signal);
}

bool Install() {
  struct sigaction current;
  if (sigaction(SIGINT, nullptr, &current) != 0) return false;
  if (current.sa_handler == OnInterrupt) return true;
  bool is_function = current.sa_handler != SIG_DFL && current.sa_handler != SIG_IGN;
  if ((current.sa_flags & SA_SIGINFO) || !is_function) return false;
  python_action = current;
  current.sa_handler = OnInterrupt;
  return sigaction(SIGINT, &current, nullptr) == 0;
}

// The handler stays once it is there: a system call for every run would cost more than a small network does. Python
// takes it out when a user sets a handler of his own, so it is looked at again from time to time.
bool InstallNowAndThen() {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point looked_at;
  static bool installed = false;
  Clock::time_point now = Clock::now();
  if (!installed || now - looked_at > std::chrono::milliseconds(50)) {
    installed = Install();
    looked_at = now;
  }
  return installed;
}

// Kept for the life of the process: destroying it after the interpreter is gone would crash.
struct Python {
  // The module under 'signal', whose functions do not make enums of what they give: a tenth of the time.
  py::module_ signal = py::module_::import("_signal");
  py::object getsignal = signal.attr("getsignal");
  py::object usual_handler = signal.attr("default_int_handler");
  py::int_ number{SIGINT};
  unsigned long main_thread =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
};

const Python& ThePython() {
  static const Python& python = *new Python;
  return python;
}

bool OnMainThread() { return PyThread_get_thread_ident() == ThePython().main_thread; }

bool UsualHandlerIsInPlace() { return ThePython().getsignal(ThePython().number).is(ThePython().usual_handler); }

}  // namespace

void PrepareInterrupts() { ThePython(); }

InterruptGuard::InterruptGuard(std::atomic<bool>& flag)
    : watching_(OnMainThread() && UsualHandlerIsInPlace() && InstallNowAndThen()) {
  if (watching_) flag_to_set.store(&flag, std::memory_order_relaxed);
}

InterruptGuard::~InterruptGuard() {
  if (watching_) flag_to_set.store(nullptr, std::memory_order_relaxed);
}

}  // namespace ferry::python

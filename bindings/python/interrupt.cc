#include "interrupt.h"

#include <pybind11/pybind11.h>
#include <signal.h>

#include "convert.h"

namespace ferry::python {
namespace {

std::atomic<std::atomic<bool>*> flag_to_set{nullptr};
struct sigaction python_action;

void OnInterrupt(int signal) {
  if (std::atomic<bool>* flag = flag_to_set.load(std::memory_order_relaxed))
    flag->store(true, std::memory_order_relaxed);
  if (python_action.sa_handler != SIG_DFL && python_action.sa_handler != SIG_IGN) python_action.sa_handler(signal);
}

bool OnMainThread() {
  static const unsigned long main_thread =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  return PyThread_get_thread_ident() == main_thread;
}

bool UsualHandlerIsInPlace() {
  static const py::object& get = Forever(py::object(py::module_::import("signal").attr("getsignal")));
  static const py::object& usual = Forever(py::object(py::module_::import("signal").attr("default_int_handler")));
  static const py::int_& number = Forever(py::int_(SIGINT));
  return get(number).is(usual);
}

}  // namespace

InterruptGuard::InterruptGuard(std::atomic<bool>& flag) : watching_(OnMainThread() && UsualHandlerIsInPlace()) {
  if (!watching_) return;
  flag_to_set.store(&flag, std::memory_order_relaxed);
  struct sigaction ours = {};
  ours.sa_handler = OnInterrupt;
  sigaction(SIGINT, &ours, &python_action);
}

InterruptGuard::~InterruptGuard() {
  if (!watching_) return;
  sigaction(SIGINT, &python_action, nullptr);
  flag_to_set.store(nullptr, std::memory_order_relaxed);
}

}  // namespace ferry::python

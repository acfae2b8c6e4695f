// The compiled part of the Python package: sessions, and the calls that need the library. Everything a user sees is in
// ferry/*.py, which is written on top of this.
#include "base/version.h"
#include "bindings.h"
#include "convert.h"
#include "interrupt.h"
#include "value.h"

namespace ferry::python {

PYBIND11_MODULE(_ferry, m) {
  static py::object& raise = *new py::object(py::none());  // never destroyed: the interpreter may be gone by then
  m.def(
      "set_error_factory", [](py::object factory) { raise = std::move(factory); },
      "factory(code, message) makes the exception for an error of the library");
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      py::object made = raise(ErrorCodeName(error.code()), error.message());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    }
  });

  PrepareConversions();
  PrepareInterrupts();

  m.def("version", [] { return kVersion; });
  m.def("numpy_type", [](py::handle type) { return NumpyType(ToDType(type)); });
  BindValue(m);
  BindDlpack(m);
  BindSession(m);
  BindCompare(m);
  BindDoctor(m);
  BindGenerate(m);
  BindOptimize(m);
  BindQuantize(m);
  BindTools(m);
}

}  // namespace ferry::python

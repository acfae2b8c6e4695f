// numpy arrays, lists and dicts to Ferry's values and back, without copying elements where their layout allows.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "graph/type.h"
#include "tensor/value.h"

namespace ferry::python {

namespace py = pybind11;

// `expected` settles what numpy cannot say by itself: bfloat16 held as uint16, strings, empty lists. `what` names the
// value in errors ("input 'x'").
Value ToValue(py::handle object, const Type& expected, const std::string& what);
py::object ToPython(const Value& value);
py::object ToNumpy(const Tensor& tensor);

}  // namespace ferry::python

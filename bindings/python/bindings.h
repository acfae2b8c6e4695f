#pragma once

#include <pybind11/pybind11.h>

#include "graph/model.h"

namespace ferry::python {

namespace py = pybind11;

// (name, 'tensor(float)', ['batch', 3]) for each.
py::list Describe(const std::vector<ValueInfo>& infos);

void BindSession(py::module_& m);
void BindTools(py::module_& m);

}  // namespace ferry::python

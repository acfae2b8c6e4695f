#pragma once

#include <pybind11/pybind11.h>

#include "base/json.h"
#include "graph/model.h"

namespace ferry::python {

namespace py = pybind11;

// (name, 'tensor(float)', ['batch', 3]) for each.
py::list Describe(const std::vector<ValueInfo>& infos);

py::object FromJson(const Json& json);
// A path, or the bytes of a model.
Model ReadAny(const py::object& source, bool load_external = true);

void BindCompare(py::module_& m);
void BindDoctor(py::module_& m);
void BindGenerate(py::module_& m);
void BindOptimize(py::module_& m);
void BindQuantize(py::module_& m);
void BindSession(py::module_& m);
void BindTools(py::module_& m);

}  // namespace ferry::python

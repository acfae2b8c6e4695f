// A value that stays in C++ between runs: what OrtValue and SparseTensor are made of.
#pragma once

#include <pybind11/pybind11.h>

#include "tensor/value.h"

namespace ferry::python {

struct PyValue {
  Value value;
};

void BindValue(pybind11::module_& m);

}  // namespace ferry::python

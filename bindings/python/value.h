// A value that stays in C++ between runs: what OrtValue and SparseTensor are made of.
#pragma once

#include <pybind11/pybind11.h>

#include "tensor/value.h"

namespace ferry::python {

struct PyValue {
  Value value;
};

// The memory of a provider's device ("cuda", or "cpu": the host's); throws where it cannot be had.
MemorySpace& SpaceNamed(const std::string& device, int64_t number);

void BindValue(pybind11::module_& m);
void BindDlpack(pybind11::module_& m);

}  // namespace ferry::python

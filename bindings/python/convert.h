// numpy arrays, lists and dicts to Ferry's values and back, without copying elements where their layout allows.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "graph/type.h"
#include "tensor/value.h"

namespace ferry::python {

namespace py = pybind11;

// Looks up what conversions need of numpy; to be called once, when the module is loaded.
void PrepareConversions();

// Keeps a Python object alive from threads that do not hold the interpreter's lock.
std::shared_ptr<const void> KeepAlive(py::object object);

// `expected` settles what numpy cannot say by itself: bfloat16 held as uint16, strings, empty lists. `name` is that of
// the input, for errors.
Value ToValue(py::handle object, const Type& expected, const std::string& name);
py::object ToPython(const Value& value);
py::object ToNumpy(const Tensor& tensor);

// A tensor over an array's memory; where the array is no plain numpy memory, over a copy.
Tensor ToTensor(py::handle object, DType wanted, const std::string& name);
// The same for memory that is to be written: an array that would have to be copied is refused.
Tensor ToWritableTensor(py::handle object, DType wanted, const std::string& name);

// numpy's type for elements of this type, ml_dtypes' where numpy has none, else the unsigned type of their bits.
py::object NumpyType(DType type);
// An element type by numpy's dtype (or anything numpy takes for one) or by its number in ONNX.
DType ToDType(py::handle type);

}  // namespace ferry::python

#include "value.h"

#include <pybind11/stl.h>

#include <cstring>

#include "convert.h"
#include "ops/infer_graph.h"
#include "tensor/sparse.h"

namespace ferry::python {
namespace {

// The caller vouches for the memory at `address`, as it does with any raw pointer.
PyValue OverAddress(uintptr_t address, py::handle type, const std::vector<int64_t>& dims, const std::string& device,
                    int64_t number) {
  DType dtype = ToDType(type);
  Require(dtype != DType::kString, "strings have no address");
  Shape shape(dims);
  Require(address != 0 || shape.ElementCount() == 0, "the address is null");
  const size_t bytes = StorageBytes(dtype, shape.ElementCount());
  MemorySpace& space = SpaceNamed(device, number);
  return {Tensor(dtype, shape, Buffer::Borrow(reinterpret_cast<const void*>(address), bytes, nullptr, space))};
}

PyValue Create(const std::vector<int64_t>& dims, py::handle type) {
  DType dtype = ToDType(type);
  return {dtype == DType::kString ? Tensor(dtype, Shape(dims)) : Tensor::Zeros(dtype, Shape(dims))};
}

// Copies the elements of `source` over those of `target`.
void Update(PyValue& target, py::handle source) {
  Tensor& to = target.value.tensor();
  Value given = ToValue(source, TypeOf(target.value), "");
  const Tensor& from = given.tensor();
  Require(from.dtype() == to.dtype() && from.shape() == to.shape(), "the value is ", to.dtype(), to.shape(),
          " and can't be updated with ", from.dtype(), from.shape());
  if (!to.on_host()) {
    to.space().CopyFromHost(to.address(), from.raw(), from.bytes());
  } else if (to.dtype() == DType::kString) {
    std::copy(from.Data<std::string>(), from.Data<std::string>() + from.size(), to.MutableData<std::string>());
  } else if (to.bytes() > 0) {
    std::memmove(to.mutable_raw(), from.raw(), to.bytes());
  }
}

PyValue MakeSparse(const std::vector<int64_t>& dims, py::handle values, py::handle indices) {
  SparseTensor sparse{Shape(dims), ToTensor(values, DType::kUndefined, "values"),
                      ToTensor(indices, DType::kInt64, "indices")};
  CheckSparse(sparse);
  return {std::move(sparse)};
}

py::list ShapeOf(const PyValue& value) {
  const Shape& shape = value.value.is_sparse() ? value.value.sparse().shape : value.value.tensor().shape();
  py::list list;
  for (int64_t dim : shape) list.append(dim);
  return list;
}

}  // namespace

void BindValue(py::module_& m) {
  py::class_<PyValue>(m, "Value")
      .def_static(
          "of",
          [](py::handle object, py::handle type) {
            Type expected = type.is_none() ? Type{} : Type::Tensor(ToDType(type));
            return PyValue{ToValue(object, expected, "")};
          },
          py::arg("object"), py::arg("type") = py::none())
      .def_static("sequence",
                  [](const py::list& items) { return PyValue{ToValue(items, Type::SequenceOf(Type{}), "")}; })
      .def_static(
          "writable",
          [](py::handle array, py::handle type) {
            return PyValue{ToWritableTensor(array, type.is_none() ? DType::kUndefined : ToDType(type), "")};
          },
          py::arg("array"), py::arg("type") = py::none())
      .def_static("create", &Create)
      .def_static("at_address", &OverAddress, py::arg("address"), py::arg("type"), py::arg("shape"),
                  py::arg("device") = "cpu", py::arg("number") = 0)
      .def("to", [](const PyValue& v, const std::string& device,
                    int64_t number) { return PyValue{v.value.tensor().In(SpaceNamed(device, number))}; })
      .def("device",
           [](const PyValue& v) {
             return v.value.is_tensor() && !v.value.tensor().on_host() ? std::string(v.value.tensor().space().name())
                                                                       : std::string("cpu");
           })
      .def_static("sparse", &MakeSparse)
      .def("update", &Update)
      .def("shape", &ShapeOf)
      .def("kind", [](const PyValue& v) { return v.value.KindName(); })
      .def("is_tensor", [](const PyValue& v) { return v.value.is_tensor(); })
      .def("is_sequence", [](const PyValue& v) { return v.value.is_sequence(); })
      .def("is_sparse", [](const PyValue& v) { return v.value.is_sparse(); })
      .def("has_value", [](const PyValue& v) { return v.value.present() && !v.value.is_nothing(); })
      .def("type_name", [](const PyValue& v) { return OnnxTypeName(TypeOf(v.value)); })
      .def("element_type",
           [](const PyValue& v) {
             const Tensor& tensor = v.value.is_sparse() ? v.value.sparse().values : v.value.tensor();
             return static_cast<int>(tensor.dtype());
           })
      .def("address", [](const PyValue& v) { return reinterpret_cast<uintptr_t>(v.value.tensor().address()); })
      .def("bytes", [](const PyValue& v) { return v.value.tensor().bytes(); })
      .def("numpy",
           [](const PyValue& v) {
             const bool elsewhere = v.value.is_tensor() && !v.value.tensor().on_host();
             return ToPython(elsewhere ? Value(v.value.tensor().In(HostMemory())) : v.value);
           })
      .def("sparse_values", [](const PyValue& v) { return ToNumpy(v.value.sparse().values); })
      .def("sparse_indices", [](const PyValue& v) { return ToNumpy(v.value.sparse().indices); });
}

}  // namespace ferry::python

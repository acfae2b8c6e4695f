// Tensors handed to and taken from other libraries in the same process, on the host and on a GPU, by DLPack: a struct
// in a capsule whose layout everybody agrees on (dmlc.github.io/dlpack, version 0).
#include <memory>

#include "bindings.h"
#include "engine/provider.h"
#include "value.h"

namespace ferry::python {
namespace {

constexpr int32_t kOnHost = 1, kOnCuda = 2, kPinned = 3;

struct DlDevice {
  int32_t type, number;
};
struct DlType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t rank;
  DlType type;
  int64_t* dims;
  int64_t* strides;  // null: row-major
  uint64_t offset;
};
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*release)(DlManaged*);
};

struct TypeCode {
  DType type;
  DlType code;
};
constexpr TypeCode kTypes[] = {
    {DType::kInt8, {0, 8, 1}},       {DType::kInt16, {0, 16, 1}},       {DType::kInt32, {0, 32, 1}},
    {DType::kInt64, {0, 64, 1}},     {DType::kUInt8, {1, 8, 1}},        {DType::kUInt16, {1, 16, 1}},
    {DType::kUInt32, {1, 32, 1}},    {DType::kUInt64, {1, 64, 1}},      {DType::kFloat16, {2, 16, 1}},
    {DType::kFloat, {2, 32, 1}},     {DType::kDouble, {2, 64, 1}},      {DType::kBFloat16, {4, 16, 1}},
    {DType::kComplex64, {5, 64, 1}}, {DType::kComplex128, {5, 128, 1}}, {DType::kBool, {6, 8, 1}},
};

DlType CodeOf(DType type) {
  for (const TypeCode& entry : kTypes)
    if (entry.type == type) return entry.code;
  Fail(ErrorCode::kUnsupported, "DLPack has no elements of type ", type);
}

DType TypeOfCode(const DlType& code) {
  for (const TypeCode& entry : kTypes)
    if (entry.code.code == code.code && entry.code.bits == code.bits && code.lanes == 1) return entry.type;
  Fail(ErrorCode::kUnsupported, "no ONNX type has DLPack's elements of code ", int{code.code}, " and ", int{code.bits},
       " bits");
}

// What a capsule that goes out owns.
struct Given {
  DlManaged managed;
  Tensor tensor;
  std::vector<int64_t> dims;
};

void ReleaseUntaken(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // whoever took it releases it
  auto* managed = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule, "dltensor"));
  if (managed && managed->release) managed->release(managed);
}

py::object ToCapsule(const PyValue& value) {
  const Tensor& tensor = value.value.tensor();
  auto given = std::make_unique<Given>();
  given->tensor = tensor;
  given->dims.assign(tensor.shape().begin(), tensor.shape().end());
  given->managed.tensor = {tensor.address(),
                           {tensor.on_host() ? kOnHost : kOnCuda, 0},
                           static_cast<int32_t>(tensor.rank()),
                           CodeOf(tensor.dtype()),
                           given->dims.data(),
                           nullptr,
                           0};
  given->managed.context = given.get();
  given->managed.release = [](DlManaged* managed) { delete static_cast<Given*>(managed->context); };
  PyObject* capsule = PyCapsule_New(&given->managed, "dltensor", ReleaseUntaken);
  if (!capsule) throw py::error_already_set();
  static_cast<void>(given.release());
  return py::reinterpret_steal<py::object>(capsule);
}

bool IsRowMajor(const DlTensor& tensor) {
  int64_t stride = 1;
  for (int32_t i = tensor.rank; tensor.strides && i-- > 0; stride *= tensor.dims[i])
    if (tensor.dims[i] != 1 && tensor.strides[i] != stride) return false;
  return true;
}

MemorySpace& SpaceOf(const DlDevice& device) {
  if (device.type == kOnHost || device.type == kPinned) return HostMemory();
  if (device.type != kOnCuda)
    Fail(ErrorCode::kUnsupported, "tensors on DLPack's device ", device.type,
         " cannot be taken; those on the host and on "
         "NVIDIA's GPUs can");
  return SpaceNamed("cuda", device.number);
}

PyValue FromCapsule(const py::object& capsule) {
  auto* managed = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) throw py::error_already_set();
  const DlTensor& there = managed->tensor;
  const DType type = TypeOfCode(there.type);
  Require(there.rank >= 0 && there.rank <= 64, "a tensor of ", there.rank, " axes");
  const Shape shape(std::span<const int64_t>(there.dims, static_cast<size_t>(there.rank)));
  Require(IsRowMajor(there), "the tensor's elements do not lie row by row; make it contiguous first");
  MemorySpace& space = SpaceOf(there.device);
  const size_t bytes = StorageBytes(type, shape.ElementCount());
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  std::shared_ptr<const void> keep(managed, [](const void* p) {
    auto* taken = const_cast<DlManaged*>(static_cast<const DlManaged*>(p));
    py::gil_scoped_acquire gil;
    if (taken->release) taken->release(taken);
  });
  const auto* data = static_cast<const std::byte*>(there.data) + there.offset;
  return {Tensor(type, shape, Buffer::Borrow(data, bytes, std::move(keep), space))};
}

}  // namespace

MemorySpace& SpaceNamed(const std::string& device, int64_t number) {
  const std::vector<const Provider*> found = FindProviders(device);
  Require(number == 0, "there is no device ", device, ":", number, ": one device of each kind is used, number 0");
  found.front()->Open({});  // says what is missing
  return found.front()->memory();
}

void BindDlpack(py::module_& m) {
  m.def("to_dlpack", &ToCapsule);
  m.def("from_dlpack", &FromCapsule);
  m.def("wait_for_device", [](const std::string& provider) {
    const py::gil_scoped_release unlocked;
    FindProviders(provider).front()->WaitForDevice();
  });
  // (name, why it cannot be used here) of each; "" where it can.
  m.def("providers", [] {
    py::list all;
    for (const Provider* provider : BuiltInProviders()) {
      std::string problem;
      try {
        const py::gil_scoped_release unlocked;
        provider->Open({});
      } catch (const Error& error) {
        problem = error.message();
      }
      all.append(py::make_tuple(std::string(provider->name()), problem));
    }
    return all;
  });
}

}  // namespace ferry::python

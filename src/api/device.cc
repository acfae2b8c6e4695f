// Tensors in the memory of a provider's device.
#include "api/handles.h"
#include "engine/provider.h"

using namespace ferry;
using namespace ferry::api;

namespace ferry::api {

MemorySpace& SpaceNamed(const char* device) {
  RequirePointer(device, "device");
  std::string_view name = device;
  const size_t colon = name.find(':');
  const std::string_view number = colon == std::string_view::npos ? "0" : name.substr(colon + 1);
  const std::vector<const Provider*> found = FindProviders(name.substr(0, colon));
  Require(number == "0", "there is no device '", Printable(name), "': one device of each kind is used, number 0");
  found.front()->Open({});  // says what is missing
  return found.front()->memory();
}

}  // namespace ferry::api

ferry_status* ferry_tensor_borrow_on(const char* device, ferry_dtype type, const int64_t* dims, size_t rank, void* data,
                                     size_t bytes, ferry_value** out) {
  return Guard([&] {
    MemorySpace& space = SpaceNamed(device);
    const Shape shape = ToShape(dims, rank);
    const auto dtype = static_cast<DType>(type);
    Require(IsValidDType(static_cast<int64_t>(type)) && dtype != DType::kString && dtype != DType::kUndefined,
            "there is no tensor of type ", static_cast<int>(type), " on a device");
    Require(bytes == StorageBytes(dtype, shape.ElementCount()), bytes, " bytes are given for ", dtype, shape,
            ", which takes ", StorageBytes(dtype, shape.ElementCount()));
    if (bytes > 0) RequirePointer(data, "data");
    Give(out, Tensor(dtype, shape, Buffer::Borrow(data, bytes, nullptr, space)));
  });
}

ferry_status* ferry_tensor_to(const ferry_value* value, const char* device, ferry_value** out) {
  return Guard([&] {
    RequirePointer(value, "value");
    Require(value->value.is_tensor(), "only tensors lie on devices; this is ", value->value.KindName());
    Give(out, value->value.tensor().In(SpaceNamed(device)));
  });
}

const char* ferry_tensor_device(const ferry_value* value) {
  if (!value || !value->value.is_tensor()) return "";
  const Tensor& tensor = value->value.tensor();
  return tensor.on_host() ? "cpu" : tensor.space().name().data();
}

void* ferry_tensor_device_data(const ferry_value* value) {
  if (!value || !value->value.is_tensor() || value->value.tensor().dtype() == DType::kString) return nullptr;
  return value->value.tensor().address();
}

ferry_status* ferry_options_set_device_memory(ferry_options* options, size_t bytes) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->options.device_memory = bytes;
  });
}

ferry_status* ferry_run_options_set_device(ferry_run_options* options, const char* device) {
  return Guard([&] {
    RequirePointer(options, "options");
    options->space = device ? &SpaceNamed(device) : nullptr;
  });
}

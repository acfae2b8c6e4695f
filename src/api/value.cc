#include <cstring>

#include "api/handles.h"

using namespace ferry;
using namespace ferry::api;

namespace {

DType ToDType(ferry_dtype type) {
  if (!IsValidDType(type)) Fail(ErrorCode::kInvalidArgument, "there is no element type ", static_cast<int>(type));
  return static_cast<DType>(type);
}

// Checks that `bytes` bytes at `data` are what the type and the shape take.
void CheckStorage(DType type, const Shape& shape, const void* data, size_t bytes) {
  Require(type != DType::kString, "strings are made by ferry_tensor_of_strings");
  size_t wanted = StorageBytes(type, shape.ElementCount());
  Require(bytes == wanted, type, shape, " takes ", wanted, " bytes, got ", bytes);
  if (bytes > 0) RequirePointer(data, "data");
}

const Tensor* TensorIn(const ferry_value* value) {
  return value && value->value.is_tensor() ? &value->value.tensor() : nullptr;
}

}  // namespace

int64_t ferry_tensor_bytes_for(ferry_dtype type, const int64_t* dims, size_t rank) {
  int64_t bytes = -1;
  ferry_status* status = Guard([&] {
    DType dtype = ToDType(type);
    Require(dtype != DType::kString, "strings have no fixed size");
    bytes = static_cast<int64_t>(StorageBytes(dtype, ToShape(dims, rank).ElementCount()));
  });
  ferry_status_free(status);
  return bytes;
}

ferry_status* ferry_tensor_create(ferry_dtype type, const int64_t* dims, size_t rank, ferry_value** out) {
  return Guard([&] {
    DType dtype = ToDType(type);
    Shape shape = ToShape(dims, rank);
    Give(out, dtype == DType::kString ? Tensor(dtype, std::move(shape)) : Tensor::Zeros(dtype, std::move(shape)));
  });
}

ferry_status* ferry_tensor_copy(ferry_dtype type, const int64_t* dims, size_t rank, const void* data, size_t bytes,
                                ferry_value** out) {
  return Guard([&] {
    DType dtype = ToDType(type);
    Shape shape = ToShape(dims, rank);
    CheckStorage(dtype, shape, data, bytes);
    Tensor tensor(dtype, std::move(shape));
    if (bytes > 0) std::memcpy(tensor.mutable_raw(), data, bytes);
    Give(out, std::move(tensor));
  });
}

ferry_status* ferry_tensor_borrow(ferry_dtype type, const int64_t* dims, size_t rank, const void* data, size_t bytes,
                                  ferry_value** out) {
  return Guard([&] {
    DType dtype = ToDType(type);
    Shape shape = ToShape(dims, rank);
    CheckStorage(dtype, shape, data, bytes);
    Give(out, Tensor::Borrow(dtype, std::move(shape), data));
  });
}

ferry_status* ferry_tensor_of_strings(const int64_t* dims, size_t rank, const char* const* strings,
                                      const size_t* lengths, ferry_value** out) {
  return Guard([&] {
    Tensor tensor(DType::kString, ToShape(dims, rank));
    if (tensor.size() > 0) RequirePointer(strings, "strings");
    std::string* to = tensor.MutableData<std::string>();
    for (int64_t i = 0; i < tensor.size(); ++i) {
      RequirePointer(strings[i], "a string");
      to[i].assign(strings[i], lengths ? lengths[i] : std::strlen(strings[i]));
    }
    Give(out, std::move(tensor));
  });
}

ferry_status* ferry_empty_optional(ferry_value** out) {
  return Guard([&] { Give(out, Nothing{}); });
}

ferry_status* ferry_value_share(const ferry_value* value, ferry_value** out) {
  return Guard([&] {
    RequirePointer(value, "value");
    Give(out, value->value);
  });
}

void ferry_value_free(ferry_value* value) { delete value; }

ferry_kind ferry_value_kind(const ferry_value* value) {
  if (!value) return FERRY_KIND_UNKNOWN;
  const Value& held = value->value;
  if (held.is_tensor()) return FERRY_KIND_TENSOR;
  if (held.is_sequence()) return FERRY_KIND_SEQUENCE;
  if (held.is_map()) return FERRY_KIND_MAP;
  if (held.is_sparse()) return FERRY_KIND_SPARSE_TENSOR;
  return held.is_nothing() ? FERRY_KIND_OPTIONAL : FERRY_KIND_UNKNOWN;
}

ferry_dtype ferry_tensor_dtype(const ferry_value* value) {
  const Tensor* tensor = TensorIn(value);
  return tensor ? static_cast<ferry_dtype>(tensor->dtype()) : FERRY_UNDEFINED;
}

size_t ferry_tensor_rank(const ferry_value* value) {
  const Tensor* tensor = TensorIn(value);
  return tensor ? tensor->rank() : 0;
}

const int64_t* ferry_tensor_dims(const ferry_value* value) {
  const Tensor* tensor = TensorIn(value);
  return tensor ? tensor->shape().data() : nullptr;
}

int64_t ferry_tensor_size(const ferry_value* value) {
  const Tensor* tensor = TensorIn(value);
  return tensor ? tensor->size() : 0;
}

size_t ferry_tensor_bytes(const ferry_value* value) {
  const Tensor* tensor = TensorIn(value);
  return tensor ? tensor->bytes() : 0;
}

const void* ferry_tensor_data(const ferry_value* value) {
  const Tensor* tensor = TensorIn(value);
  return tensor && tensor->on_host() ? tensor->raw() : nullptr;
}

void* ferry_tensor_mutable_data(ferry_value* value) {
  const Tensor* tensor = TensorIn(value);
  if (!tensor || !tensor->on_host() || !tensor->buffer() || tensor->buffer()->is_borrowed()) return nullptr;
  return value->value.tensor().mutable_raw();
}

const char* ferry_tensor_string(const ferry_value* value, int64_t index, size_t* length) {
  const Tensor* tensor = TensorIn(value);
  if (!tensor || tensor->dtype() != DType::kString || index < 0 || index >= tensor->size()) return nullptr;
  const std::string& text = tensor->Data<std::string>()[index];
  if (length) *length = text.size();
  return text.c_str();
}

#include "server/infer_codec.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "server/datatype.h"
#include "server/tensor_json.h"

namespace ferry::server {

void CheckShape(const Shape& shape, const std::string& input) {
  for (int64_t dim : shape)
    if (dim < 0)
      Refuse(Code::kInvalidArgument, "invalid shape for input '", Printable(input), "': shape ",
             DimsText(shape.ToVector()), " contains one or more invalid dimensions");
  try {
    shape.ElementCount();
  } catch (const std::exception&) {
    Refuse(Code::kInvalidArgument, "invalid shape for input '", Printable(input), "': shape ",
           DimsText(shape.ToVector()), " causes total element count to exceed maximum size of ", INT64_MAX);
  }
}

Tensor TensorFromBytes(DType type, const Shape& shape, std::string_view bytes, const std::string& input,
                       const std::string& model, const std::shared_ptr<const void>& keep_alive) {
  if (type == DType::kString) return StringsFromBytes(bytes, shape, input, model);
  const size_t width = ElementBytes(type);
  const auto count = static_cast<uint64_t>(shape.ElementCount());
  if (count > SIZE_MAX / width / 2 || count * width != bytes.size())
    Refuse(Code::kInvalidArgument, "input byte size mismatch for input '", Printable(input), "' for model '", model,
           "'. Expected ", count * width, ", got ", bytes.size());
  const bool is_aligned = reinterpret_cast<uintptr_t>(bytes.data()) % width == 0;
  if (keep_alive && is_aligned && type != DType::kBool && !bytes.empty())
    return Tensor::Borrow(type, shape, bytes.data(), keep_alive);
  Tensor tensor(type, shape);
  if (bytes.empty()) return tensor;
  std::memcpy(tensor.mutable_raw(), bytes.data(), bytes.size());
  if (type == DType::kBool)  // any byte may come, a bool is one of two
    for (size_t i = 0; i < bytes.size(); ++i) tensor.mutable_raw()[i] = std::byte{bytes[i] != 0};
  return tensor;
}

// Copied: the client may change its memory while the model runs.
Tensor TensorFromMemory(DType type, const Shape& shape, const MemoryRange& range, const std::string& input,
                        const std::string& model) {
  const std::string_view bytes(reinterpret_cast<const char*>(range.data), range.bytes);
  if (type == DType::kString) {
    const std::string copy(bytes);
    return StringsFromBytes(copy, shape, input, model);
  }
  return TensorFromBytes(type, shape, bytes, input, model, nullptr);
}

namespace {

template <class T>
void ClassifyRow(const T* values, int64_t count, int64_t wanted, const std::vector<std::string>& labels,
                 std::string* out) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + wanted, order.end(),
                    [&](int64_t a, int64_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t index = order[static_cast<size_t>(i)];
    out[i] = std::to_string(values[index]) + ":" + std::to_string(index);
    if (static_cast<size_t>(index) < labels.size() && !labels[static_cast<size_t>(index)].empty())
      (out[i] += ":") += labels[static_cast<size_t>(index)];
  }
}

template <class T>
void ClassifyRows(const Tensor& tensor, int64_t rows, int64_t wanted, const std::vector<std::string>& labels,
                  std::string* out) {
  const int64_t count = rows > 0 ? tensor.size() / rows : 0;
  for (int64_t row = 0; row < rows; ++row)
    ClassifyRow(tensor.Data<T>() + row * count, count, wanted, labels, out + row * wanted);
}

}  // namespace

Tensor Classify(const Tensor& tensor, int64_t classes, bool has_batch, const std::vector<std::string>& labels) {
  constexpr int64_t kMostElements = 1'000'000;
  const bool batched = has_batch && tensor.rank() > 0;
  const int64_t rows = batched ? tensor.dim(0) : 1;
  if (tensor.size() > kMostElements * std::max<int64_t>(rows, 1))
    Refuse(Code::kInvalidArgument, "classification output tensor too large");
  const int64_t wanted = rows > 0 ? std::min(classes, tensor.size() / rows) : 0;
  Tensor out(DType::kString, batched ? Shape{rows, wanted} : Shape{wanted});
  std::string* texts = out.MutableData<std::string>();
  switch (tensor.dtype()) {
    case DType::kUInt8: ClassifyRows<uint8_t>(tensor, rows, wanted, labels, texts); break;
    case DType::kUInt16: ClassifyRows<uint16_t>(tensor, rows, wanted, labels, texts); break;
    case DType::kUInt32: ClassifyRows<uint32_t>(tensor, rows, wanted, labels, texts); break;
    case DType::kUInt64: ClassifyRows<uint64_t>(tensor, rows, wanted, labels, texts); break;
    case DType::kInt8: ClassifyRows<int8_t>(tensor, rows, wanted, labels, texts); break;
    case DType::kInt16: ClassifyRows<int16_t>(tensor, rows, wanted, labels, texts); break;
    case DType::kInt32: ClassifyRows<int32_t>(tensor, rows, wanted, labels, texts); break;
    case DType::kInt64: ClassifyRows<int64_t>(tensor, rows, wanted, labels, texts); break;
    case DType::kFloat: ClassifyRows<float>(tensor, rows, wanted, labels, texts); break;
    case DType::kDouble: ClassifyRows<double>(tensor, rows, wanted, labels, texts); break;
    default:
      Refuse(Code::kInvalidArgument, "class result not available for output due to unsupported type '",
             DatatypeName(tensor.dtype()), "'");
  }
  return out;
}

Tensor FinalOutput(const Job& job, size_t index, const ServedModel& model) {
  const std::string& name = job.output_names[index];
  if (!job.outputs[index].is_tensor())
    Refuse(Code::kUnimplemented, "output '", name, "' is ", job.outputs[index].KindName(),
           ", which the protocol cannot carry");
  const Tensor& tensor = job.outputs[index].tensor();
  if (DatatypeName(tensor.dtype()).empty())
    Refuse(Code::kUnimplemented, "output '", name, "' is ", tensor.dtype(), ", which the protocol cannot carry");
  for (const RequestedOutput& wanted : job.request.outputs)
    if (wanted.name == name && wanted.classes > 0)
      return Classify(tensor, wanted.classes, model.config().max_batch_size > 0,
                      model.config().FindOutput(name)->labels);
  return tensor;
}

size_t WireBytes(const Tensor& tensor) {
  return tensor.dtype() == DType::kString ? StringBytes(tensor) : tensor.bytes();
}

void AppendWire(std::string& out, const Tensor& tensor) {
  if (tensor.dtype() == DType::kString)
    AppendStringBytes(out, tensor);
  else
    out.append(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
}

void PlaceOutput(const Tensor& tensor, const RequestedOutput& wanted) {
  std::string bytes;
  const size_t size = WireBytes(tensor);
  if (size > wanted.memory->bytes)
    Refuse(Code::kInvalidArgument, "shared memory size specified with the request for output '", wanted.name, "' (",
           wanted.memory->bytes, " bytes) should be at least ", size, " bytes to hold the results");
  if (size == 0) return;
  if (tensor.dtype() == DType::kString) {
    AppendStringBytes(bytes, tensor);
    std::memcpy(wanted.memory->data, bytes.data(), size);
  } else {
    std::memcpy(wanted.memory->data, tensor.raw(), size);
  }
}

}  // namespace ferry::server

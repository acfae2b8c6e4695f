// Tensors and sparse tensors: what they say of themselves, and whether their data bears it out.
#include "base/error.h"
#include "onnx/aligned.h"
#include "onnx/checker/context.h"

namespace ferry::checker {
namespace {

// The number of elements; empty when a dimension is negative or the product overflows.
std::optional<int64_t> ElementCount(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  return count;
}

void CheckExternal(const StoredTensor& tensor, const Place& place, Report& report) {
  bool has_location = false;
  for (const auto& [key, value] : tensor.external.entries) has_location |= key == "location" && !value.empty();
  if (!has_location)
    report.Add("tensor.external", place, "the data is said to be external, but no location is given");
  else if (!tensor.problem.empty())
    report.Add("tensor.external", place, tensor.problem);
}

// A place in a sparse tensor as one number; empty when it lies outside.
std::optional<int64_t> LinearIndex(const int64_t* index, const std::vector<int64_t>& dims) {
  int64_t linear = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (index[axis] < 0 || index[axis] >= dims[axis]) return std::nullopt;
    linear = linear * dims[axis] + index[axis];
  }
  return linear;
}

void CheckIndexValues(const StoredSparseTensor& tensor, int64_t dense_size, const Place& place, Report& report) {
  const bool linear = tensor.indices.dims.size() == 1;
  Tensor indices = AlignedForUse(tensor.indices.tensor);
  const int64_t* data = indices.Data<int64_t>();
  const int64_t width = linear ? 1 : static_cast<int64_t>(tensor.dims.size());
  int64_t previous = -1;
  for (int64_t i = 0; i < tensor.values.dims[0]; ++i) {
    auto at = linear ? (data[i] >= 0 && data[i] < dense_size ? std::optional(data[i]) : std::nullopt)
                     : LinearIndex(data + i * width, tensor.dims);
    if (!at)
      return report.Add("sparse.range", place,
                        Cat("index ", i, " lies outside the dims [", Join(tensor.dims, ", "), "]"));
    if (*at <= previous)
      return report.Add("sparse.order", place,
                        Cat("index ", i, " is ", *at == previous ? "a repetition" : "out of order"));
    previous = *at;
  }
}

}  // namespace

void CheckTensor(const StoredTensor& tensor, const Place& place, Report& report) {
  if (tensor.dtype_number == 0 && tensor.dtype == DType::kUndefined)
    return report.Add("tensor.type", place, "the tensor says no element type");
  if (tensor.dtype == DType::kUndefined)
    return report.Add("tensor.type", place, Cat("element type ", tensor.dtype_number, " does not exist"));
  if (!ElementCount(tensor.dims))
    return report.Add("tensor.shape", place, Cat("shape [", Join(tensor.dims, ", "), "] cannot be"));
  if (tensor.storage == StoredTensor::Storage::kExternal) return CheckExternal(tensor, place, report);
  if (!tensor.problem.empty()) report.Add("tensor.data", place, tensor.problem);
}

void CheckSparseTensor(const StoredSparseTensor& tensor, const Place& place, Report& report) {
  CheckTensor(tensor.values, place, report);
  if (tensor.values.dims.size() != 1)
    return report.Add("sparse.values", place, Cat("the values have rank ", tensor.values.dims.size(), " instead of 1"));
  auto dense_size = ElementCount(tensor.dims);
  bool positive = dense_size && *dense_size > 0 && !tensor.dims.empty();
  if (!positive) return report.Add("sparse.dims", place, Cat("dims [", Join(tensor.dims, ", "), "] cannot be"));
  int64_t count = tensor.values.dims[0];
  const StoredTensor& indices = tensor.indices;
  if (count == 0 && indices.dtype == DType::kUndefined) return;
  CheckTensor(indices, place, report);
  if (indices.dtype != DType::kInt64)
    return report.Add("sparse.indices", place, Cat("indices are of type ", indices.dtype, " instead of int64"));
  bool fits = indices.dims.size() == 1 ? indices.dims[0] == count
                                       : indices.dims.size() == 2 && indices.dims[0] == count &&
                                             indices.dims[1] == static_cast<int64_t>(tensor.dims.size());
  if (!fits)
    return report.Add("sparse.indices", place,
                      Cat("indices of shape [", Join(indices.dims, ", "), "] do not fit ", count,
                          " values of a tensor of rank ", tensor.dims.size()));
  if (indices.tensor.defined() && indices.problem.empty()) CheckIndexValues(tensor, *dense_size, place, report);
}

}  // namespace ferry::checker

#include "api/handles.h"

using namespace ferry;
using namespace ferry::api;

namespace {

// Every index must lie in the shape: kernels rely on it.
void CheckIndices(const Shape& shape, const Tensor& values, const Tensor& indices) {
  Require(values.rank() == 1, "the values of a sparse tensor have rank 1, got ", values.shape());
  Require(indices.dtype() == DType::kInt64, "indices are int64, got ", indices.dtype());
  bool linear = indices.rank() == 1;
  Require(linear || (indices.rank() == 2 && indices.dim(1) == static_cast<int64_t>(shape.rank())),
          "indices are [n] or [n, ", shape.rank(), "], got ", indices.shape());
  Require(indices.dim(0) == values.dim(0), "there are ", values.dim(0), " values and ", indices.dim(0), " indices");
  std::span<const int64_t> positions = indices.Span<int64_t>();
  int64_t count = shape.ElementCount();
  for (size_t i = 0; i < positions.size(); ++i) {
    int64_t limit = linear ? count : shape[i % shape.rank()];
    Require(positions[i] >= 0 && positions[i] < limit, "index ", positions[i], " is outside of ", shape);
  }
}

const SparseTensor* SparseIn(const ferry_value* value) {
  return value && value->value.is_sparse() ? &value->value.sparse() : nullptr;
}

}  // namespace

ferry_status* ferry_sequence_of(const ferry_value* const* elements, size_t count, ferry_value** out) {
  return Guard([&] {
    if (count > 0) RequirePointer(elements, "elements");
    Sequence sequence;
    for (size_t i = 0; i < count; ++i) {
      RequirePointer(elements[i], "an element");
      sequence.elements.push_back(elements[i]->value);
    }
    Give(out, std::move(sequence));
  });
}

ferry_status* ferry_map_of(const ferry_value* keys, const ferry_value* values, ferry_value** out) {
  return Guard([&] {
    RequirePointer(keys, "keys");
    RequirePointer(values, "values");
    const Tensor &from = keys->value.tensor(), &to = values->value.tensor();
    Require(from.dtype() == DType::kString || IsInteger(from.dtype()), "keys are integers or strings, not ",
            from.dtype());
    Require(from.rank() == 1 && from.shape() == to.shape(), "keys and values are two tensors [n], got ", from.shape(),
            " and ", to.shape());
    Give(out, Map{from, to});
  });
}

ferry_status* ferry_sparse_of(const int64_t* dims, size_t rank, const ferry_value* values, const ferry_value* indices,
                              ferry_value** out) {
  return Guard([&] {
    RequirePointer(values, "values");
    RequirePointer(indices, "indices");
    SparseTensor sparse{ToShape(dims, rank), values->value.tensor(), indices->value.tensor()};
    CheckIndices(sparse.shape, sparse.values, sparse.indices);
    Give(out, std::move(sparse));
  });
}

size_t ferry_sequence_count(const ferry_value* value) {
  return value && value->value.is_sequence() ? value->value.sequence().elements.size() : 0;
}

ferry_status* ferry_sequence_element(const ferry_value* value, size_t index, ferry_value** out) {
  return Guard([&] {
    RequirePointer(value, "value");
    const auto& elements = value->value.sequence().elements;
    Require(index < elements.size(), "the sequence has ", elements.size(), " elements; there is no element ", index);
    Give(out, elements[index]);
  });
}

ferry_status* ferry_map_keys(const ferry_value* value, ferry_value** out) {
  return Guard([&] {
    RequirePointer(value, "value");
    Give(out, value->value.map().keys);
  });
}

ferry_status* ferry_map_values(const ferry_value* value, ferry_value** out) {
  return Guard([&] {
    RequirePointer(value, "value");
    Give(out, value->value.map().values);
  });
}

size_t ferry_sparse_rank(const ferry_value* value) {
  const SparseTensor* sparse = SparseIn(value);
  return sparse ? sparse->shape.rank() : 0;
}

const int64_t* ferry_sparse_dims(const ferry_value* value) {
  const SparseTensor* sparse = SparseIn(value);
  return sparse ? sparse->shape.data() : nullptr;
}

ferry_status* ferry_sparse_values(const ferry_value* value, ferry_value** out) {
  return Guard([&] {
    RequirePointer(value, "value");
    Give(out, value->value.sparse().values);
  });
}

ferry_status* ferry_sparse_indices(const ferry_value* value, ferry_value** out) {
  return Guard([&] {
    RequirePointer(value, "value");
    Give(out, value->value.sparse().indices);
  });
}

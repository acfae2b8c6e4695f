#include "api/handles.h"
#include "tensor/sparse.h"

using namespace ferry;
using namespace ferry::api;

namespace {

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
    CheckSparse(sparse);
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

#include "ops/support/indices.h"

#include "base/work_poll.h"

namespace ferry {

std::vector<int64_t> CheckedIndices(const Tensor& indices, int64_t size, size_t axis) {
  std::vector<int64_t> checked = ToInt64Vector(indices);
  ForLookedParts(static_cast<int64_t>(checked.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      checked[static_cast<size_t>(i)] = CheckedIndex(checked[static_cast<size_t>(i)], size, axis);
  });
  return checked;
}

std::vector<int64_t> IntegerList(const Tensor& tensor, const char* what) {
  Require(tensor.rank() <= 1, what, " must be a list of integers, has shape ", tensor.shape());
  return ToInt64Vector(tensor);
}

std::vector<int64_t> TupleOffsets(const Tensor& indices, const Shape& data, size_t batch_dims) {
  auto tuple = static_cast<size_t>(indices.shape().back());
  int64_t tuples = indices.shape().CountBetween(0, indices.rank() - 1);
  int64_t batches = data.CountBetween(0, batch_dims);
  int64_t batch_stride = data.CountBetween(batch_dims, data.rank());
  std::vector<int64_t> values = ToInt64Vector(indices), strides = data.Strides();
  std::vector<int64_t> offsets;
  GrowTo(offsets, static_cast<size_t>(tuples));
  int64_t tuples_per_batch = batches > 0 ? tuples / batches : 0;
  WorkPoll poll;
  for (int64_t t = 0; t < tuples; ++t) {
    poll(static_cast<int64_t>(tuple) + 1);
    int64_t offset = t / tuples_per_batch * batch_stride;
    for (size_t k = 0; k < tuple; ++k) {
      size_t axis = batch_dims + k;
      offset += CheckedIndex(values[static_cast<size_t>(t) * tuple + k], data[axis], axis) * strides[axis];
    }
    offsets[static_cast<size_t>(t)] = offset;
  }
  return offsets;
}

}  // namespace ferry

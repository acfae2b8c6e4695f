#include "ops/support/elements.h"

#include "base/work_poll.h"
#include "ops/support/indices.h"

namespace ferry {

void CheckElementIndices(const Shape& data, const Shape& indices, size_t axis) {
  Require(indices.rank() == data.rank(), "indices of shape ", indices, " must have the rank of data of shape ", data);
  for (size_t a = 0; a < data.rank(); ++a)
    Require(a == axis || indices[a] <= data[a], "indices of shape ", indices, " are larger than data of shape ", data,
            " on axis ", a);
}

std::vector<int64_t> ElementPlaces(const Tensor& indices, const Shape& data, size_t axis) {
  std::vector<int64_t> places = CheckedIndices(indices, data[axis], axis);
  if (places.empty()) return places;
  std::vector<int64_t> strides = data.Strides();
  const Shape& shape = indices.shape();
  size_t last = shape.rank() - 1;
  std::vector<int64_t> position(shape.rank());
  int64_t base = 0;  // of the current row, without the indexed axis
  WorkPoll poll;
  for (size_t row = 0; row < places.size(); row += static_cast<size_t>(shape[last])) {
    int64_t step = last == axis ? 0 : strides[last];
    ForLookedParts(shape[last], 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t& place = places[row + static_cast<size_t>(i)];
        place = base + place * strides[axis] + i * step;
      }
    });
    poll(shape[last]);
    for (size_t a = last; a-- > 0;) {
      int64_t stride = a == axis ? 0 : strides[a];
      base += stride;
      if (++position[a] < shape[a]) break;
      base -= stride * shape[a];
      position[a] = 0;
    }
  }
  return places;
}

}  // namespace ferry

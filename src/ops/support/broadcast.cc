#include "ops/support/broadcast.h"

#include "base/error.h"

namespace ferry {

std::vector<int64_t> BroadcastStrides(const Shape& operand, const Shape& out) {
  Require(operand.rank() <= out.rank(), "shape ", operand, " cannot be broadcast to ", out);
  std::vector<int64_t> own = operand.Strides();
  std::vector<int64_t> strides(out.rank(), 0);
  size_t offset = out.rank() - operand.rank();
  for (size_t axis = 0; axis < operand.rank(); ++axis) {
    bool stretched = operand[axis] == 1;
    Require(stretched || operand[axis] == out[axis + offset], "shape ", operand, " cannot be broadcast to ", out);
    strides[axis + offset] = stretched ? 0 : own[axis];
  }
  return strides;
}

}  // namespace ferry

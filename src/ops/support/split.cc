#include "ops/support/split.h"

#include <algorithm>

#include "ops/support/movement.h"

namespace ferry {

std::vector<int64_t> EvenLengths(int64_t whole, int64_t count) {
  int64_t length = whole / count + (whole % count != 0), rest = whole;
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    lengths.push_back(std::min(length, rest));
    rest -= lengths.back();
  }
  return lengths;
}

void CheckLengths(const std::vector<int64_t>& lengths, int64_t whole, size_t axis) {
  int64_t rest = whole;
  for (int64_t length : lengths) {
    Require(length >= 0, "split has a negative length, ", length);
    Require(length <= rest, "split [", Join(lengths, ", "), "] is more than the ", whole, " elements of axis ", axis);
    rest -= length;
  }
  Require(rest == 0, "split [", Join(lengths, ", "), "] leaves ", rest, " of the ", whole, " elements of axis ", axis);
}

void CopySlab(const OpContext& context, const Tensor& from, int64_t begin, size_t axis, Tensor& to) {
  int64_t outer = from.shape().CountBetween(0, axis), inner = from.shape().CountBetween(axis + 1, from.rank());
  int64_t taken = to.dim(axis) * inner;
  CopyStrided(context, from, begin * inner, to, 0, {{outer, from.dim(axis) * inner, taken}, {taken, 1, 1}});
}

}  // namespace ferry

#include "ops/support/scale_runs.h"

#include <algorithm>

#include "base/error.h"
#include "ops/support/elementwise.h"

namespace ferry {

ScaleRuns::ScaleRuns(const Node& node, const Shape& x, const Tensor& scale, const Tensor* zero_point)
    : size_(x.ElementCount()) {
  // One zero point for one scale is clear whatever their ranks.
  Require(!zero_point || zero_point->shape() == scale.shape() || (zero_point->size() == 1 && scale.size() == 1),
          "the zero point must have the scale's shape ", scale.shape(), ", has ",
          zero_point ? zero_point->shape() : Shape());
  int64_t block_size = node.Int("block_size", 0);
  Require(block_size >= 0, "attribute 'block_size' is ", block_size);
  if (scale.rank() == 0 || (scale.size() == 1 && (scale.rank() == 1 || block_size == 0))) {
    kind_ = Kind::kTensor;
    runs_ = (size_ + kElementGrain - 1) / kElementGrain;
    return;
  }
  size_t axis = NormalizeAxis(node.Int("axis", 1), x.rank());
  int64_t outer = x.CountBetween(0, axis);
  length_ = x[axis];
  inner_ = x.CountBetween(axis + 1, x.rank());
  if (block_size == 0) {
    kind_ = Kind::kAxis;
    Require(scale.rank() == 1 && scale.size() == length_, "a scale per place of axis ", axis, " needs shape [", length_,
            "], has ", scale.shape(), " (blocks need the attribute 'block_size')");
    runs_ = inner_ == 1 ? outer : outer * length_;
    return;
  }
  kind_ = Kind::kBlock;
  block_ = block_size;
  blocks_ = length_ / block_ + (length_ % block_ != 0);
  Shape expected = x;
  expected[axis] = blocks_;
  Require(scale.shape() == expected, "blocks of ", block_, " along axis ", axis, " of shape ", x,
          " need scales of shape ", expected, ", have ", scale.shape());
  runs_ = inner_ == 1 ? outer * blocks_ : outer * length_;
}

ScaleRun ScaleRuns::At(int64_t index) const {
  switch (kind_) {
    case Kind::kTensor:
      return {index * kElementGrain, std::min(kElementGrain, size_ - index * kElementGrain), 0, false};
    case Kind::kAxis:
      if (inner_ == 1) return {index * length_, length_, 0, true};
      return {index * inner_, inner_, index % length_, false};
    case Kind::kBlock: break;
  }
  if (inner_ == 1) {
    int64_t outer = index / blocks_, begin = index % blocks_ * block_;
    return {outer * length_ + begin, std::min(block_, length_ - begin), index, false};
  }
  int64_t outer = index / length_, place = index % length_;
  return {index * inner_, inner_, (outer * blocks_ + place / block_) * inner_, true};
}

void ScaleRuns::ForEach(const OpContext& context, FunctionRef<void(const ScaleRun&)> visit) const {
  if (size_ == 0) return;
  int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, size_ / runs_));
  context.ParallelFor(runs_, grain, [&](int64_t first, int64_t last) {
    for (int64_t index = first; index < last; ++index) visit(At(index));
  });
}

}  // namespace ferry

// Which scale belongs to which element: per tensor, per axis or per block, as QuantizeLinear defines it.
#pragma once

#include <cstdint>

#include "graph/model.h"
#include "ops/operator.h"
#include "tensor/tensor.h"

namespace ferry {

// `count` elements from `first` on; their scales start at `scale` and either advance with them or stay.
struct ScaleRun {
  int64_t first, count, scale;
  bool advances;
};

class ScaleRuns {
 public:
  // Checks the scale's shape (and the zero point's, when given) against x and the node's axis and block_size.
  ScaleRuns(const Node& node, const Shape& x, const Tensor& scale, const Tensor* zero_point);

  // Visits all runs, several at a time.
  void ForEach(const OpContext& context, FunctionRef<void(const ScaleRun&)> visit) const;

 private:
  enum class Kind : uint8_t { kTensor, kAxis, kBlock };
  ScaleRun At(int64_t index) const;

  Kind kind_;
  int64_t size_ = 0, length_ = 1, inner_ = 1;  // x is [outer, length, inner] around the axis
  int64_t block_ = 1, blocks_ = 1;  // places along the axis that share a scale, and how many scales there are
  int64_t runs_ = 0;
};

}  // namespace ferry

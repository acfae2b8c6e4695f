// What the poolings share: checked sizes and inference.
#pragma once

#include "ops/infer_context.h"
#include "ops/support/window.h"
#include "tensor/shape.h"

namespace ferry {

struct PoolPlan {
  int64_t planes = 0;  // batch · channels
  std::vector<WindowAxis> axes;
  WindowCounts counts;
  Shape output;

  PoolPlan(const Node& node, const Shape& x);
};

// The shape that pooling makes of `x`.
SymbolicShape InferPooled(InferContext& context, const SymbolicShape& x);

}  // namespace ferry

#include "ops/support/pool.h"

#include "base/error.h"

namespace ferry {

PoolPlan::PoolPlan(const Node& node, const Shape& x) {
  Require(x.rank() >= 3, "the input needs a batch, channels and at least one spatial axis, its shape is ", x);
  planes = CheckedProduct(x[0], x[1]);
  WindowAttributes window = WindowAttributes::Read(node, x.rank() - 2, {});
  axes = PlanWindow(window, x.dims().subspan(2));
  counts = CountWindow(axes);
  output = Shape{x[0], x[1]};
  for (const WindowAxis& axis : axes) output.push_back(axis.output);
  output.ElementCount();
}

SymbolicShape InferPooled(InferContext& context, const SymbolicShape& x) {
  Require(x.size() >= 3, "the input needs a batch, channels and at least one spatial axis, its shape is ", x);
  WindowAttributes window = WindowAttributes::Read(context.node(), x.size() - 2, {});
  SymbolicShape out = {x[0], x[1]};
  for (size_t i = 0; i + 2 < x.size(); ++i) out.push_back(InferWindow(window, i, x[i + 2]));
  return out;
}

}  // namespace ferry

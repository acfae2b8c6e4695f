#include "ops/operator.h"
#include "ops/support/infer.h"

namespace ferry {
namespace {

size_t FlattenAxis(const Node& node, size_t rank) {
  int64_t axis = node.Int("axis", 1), signed_rank = static_cast<int64_t>(rank);
  Require(axis >= -signed_rank && axis <= signed_rank, "axis ", axis, " is out of range for rank ", rank);
  return static_cast<size_t>(axis < 0 ? axis + signed_rank : axis);
}

void ComputeFlatten(OpContext& context) {
  const Tensor& data = context.Input(0);
  size_t axis = FlattenAxis(context.node(), data.rank());
  context.SetOutput(0,
                    data.Reshaped({data.shape().CountBetween(0, axis), data.shape().CountBetween(axis, data.rank())}));
}

void InferFlatten(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  if (!data) return context.SetOutput(0, context.InputDType(0), UnknownShape(2));
  auto middle = data->begin() + static_cast<ptrdiff_t>(FlattenAxis(context.node(), data->size()));
  context.SetOutput(0, context.InputDType(0),
                    {CountElements({data->begin(), middle}), CountElements({middle, data->end()})});
}

}  // namespace

FERRY_OPERATOR(Flatten, {.compute = ComputeFlatten, .infer = InferFlatten, .is_view = true, .moves_elements = true});

}  // namespace ferry

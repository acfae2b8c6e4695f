#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

Tensor FillValue(const Node& node) {
  if (!node.Has("value")) return Tensor::Scalar(0.0f);
  const Tensor& value = node.TensorAttribute("value");
  Require(value.size() == 1, "attribute 'value' must have one element, has shape ", value.shape());
  return value;
}

void ComputeConstantOfShape(OpContext& context) {
  Tensor value = FillValue(context.node());
  Shape shape(IntegerList(context.Input(0), "the shape"));
  WriteMoved(context, 0, value.dtype(), shape, [&](Tensor& out) { FillAll(context, Movable(value), 0, out); });
}

void InferConstantOfShape(InferContext& context) {
  Tensor value = FillValue(context.node());
  if (std::optional<SymbolicShape> elements = ElementsOf(context, 0)) {
    SymbolicShape shape = ShapeFromElements(*elements);
    Dim count = CountElements(shape);
    bool is_short_list = shape.size() <= 1 && count.known() && *count.value <= static_cast<int64_t>(kMostKnownElements);
    context.SetOutput(0, value.dtype(), std::move(shape));
    if (is_short_list && IsInteger(value.dtype()) && !IsPacked(value.dtype()))
      context.SetOutputElements(0, SymbolicShape(static_cast<size_t>(*count.value), Dim(ToInt64Vector(value)[0])));
    return;
  }
  if (std::optional<size_t> rank = ListLength(context, 0))
    context.SetOutput(0, value.dtype(), UnknownShape(*rank));
  else
    context.SetOutput(0, value.dtype());
}

}  // namespace

FERRY_OPERATOR(ConstantOfShape, {.compute = ComputeConstantOfShape, .infer = InferConstantOfShape});

}  // namespace ferry

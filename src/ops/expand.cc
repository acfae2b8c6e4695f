#include "ops/operator.h"
#include "ops/support/broadcast.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

void ComputeExpand(OpContext& context) {
  const Tensor& data = context.Input(0);
  Shape shape = BroadcastShapes(data.shape(), Shape(IntegerList(context.Input(1), "the shape")));
  Tensor from = Movable(data);
  WriteMoved(context, 0, data.dtype(), shape, [&](Tensor& out) {
    std::vector<int64_t> from_strides = BroadcastStrides(data.shape(), shape);
    CopyStrided(context, from, 0, out, 0, BoxAxes(shape.dims(), from_strides, shape.Strides()));
  });
}

void InferExpand(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  DType dtype = context.InputDType(0);
  std::optional<SymbolicShape> wanted = ElementsOf(context, 1);
  if (!data || !wanted) {
    std::optional<size_t> rank = wanted ? std::optional(wanted->size()) : ListLength(context, 1);
    if (!data || !rank) return context.SetOutput(0, dtype);
    return context.SetOutput(0, dtype, BroadcastSymbolic(*data, UnknownShape(*rank)));
  }
  SymbolicShape shape = BroadcastSymbolic(*data, ShapeFromElements(*wanted));
  context.SetOutput(0, dtype, shape);
  std::optional<SymbolicShape> elements = ElementsOf(context, 0);
  if (!elements || shape.size() != 1 || !shape[0].known() || *shape[0].value > static_cast<int64_t>(kMostKnownElements))
    return;
  if (elements->size() == 1) elements->assign(static_cast<size_t>(*shape[0].value), Dim((*elements)[0]));
  context.SetOutputElements(0, *std::move(elements));
}

}  // namespace

FERRY_OPERATOR(Expand, {.compute = ComputeExpand, .infer = InferExpand, .moves_elements = true});

}  // namespace ferry

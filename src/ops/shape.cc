#include <algorithm>

#include "ops/operator.h"
#include "ops/support/infer.h"

namespace ferry {
namespace {

struct AxisRange {
  size_t begin;
  size_t end;
};

AxisRange SelectedAxes(const Node& node, size_t rank) {
  auto signed_rank = static_cast<int64_t>(rank);
  auto clamped = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + signed_rank : axis, 0, signed_rank);
  };
  int64_t begin = clamped(node.Int("start", 0)), end = clamped(node.Int("end", signed_rank));
  return {static_cast<size_t>(begin), static_cast<size_t>(std::max(begin, end))};
}

void ComputeShape(OpContext& context) {
  const Shape& shape = context.Input(0).shape();
  AxisRange axes = SelectedAxes(context.node(), shape.rank());
  Tensor& out = context.Output(0, DType::kInt64, {static_cast<int64_t>(axes.end - axes.begin)});
  std::copy(shape.begin() + axes.begin, shape.begin() + axes.end, out.MutableData<int64_t>());
}

void InferShape(InferContext& context) {
  const SymbolicShape* shape = context.InputShape(0);
  if (!shape) return context.SetOutput(0, DType::kInt64, UnknownShape(1));
  AxisRange axes = SelectedAxes(context.node(), shape->size());
  context.SetOutput(0, DType::kInt64, {Dim(static_cast<int64_t>(axes.end - axes.begin))});
  context.SetOutputElements(0, SymbolicShape(shape->begin() + static_cast<ptrdiff_t>(axes.begin),
                                             shape->begin() + static_cast<ptrdiff_t>(axes.end)));
}

void ComputeSize(OpContext& context) {
  *context.Output(0, DType::kInt64, {}).MutableData<int64_t>() = context.Input(0).size();
}

void InferSize(InferContext& context) {
  context.SetOutput(0, DType::kInt64, SymbolicShape{});
  if (const SymbolicShape* shape = context.InputShape(0)) context.SetOutputElements(0, {CountElements(*shape)});
}

}  // namespace

FERRY_OPERATOR(Shape, {.compute = ComputeShape, .infer = InferShape});
FERRY_OPERATOR(Size, {.compute = ComputeSize, .infer = InferSize});

}  // namespace ferry

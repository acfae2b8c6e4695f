#include <algorithm>

#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

std::vector<size_t> CroppedAxes(const Node& node, size_t rank) {
  if (node.Has("axes")) return NormalizeAxes(node.Ints("axes"), rank);
  std::vector<size_t> axes(rank);
  for (size_t axis = 0; axis < rank; ++axis) axes[axis] = axis;
  return axes;
}

void ComputeCenterCropPad(OpContext& context) {
  const Tensor& x = context.Input(0);
  std::vector<size_t> axes = CroppedAxes(context.node(), x.rank());
  std::vector<int64_t> wanted = IntegerList(context.Input(1), "the shape");
  Require(wanted.size() == axes.size(), "the shape has ", wanted.size(), " numbers for ", axes.size(), " axes");
  Shape shape = x.shape();
  for (size_t i = 0; i < axes.size(); ++i) shape[axes[i]] = wanted[i];
  Tensor from = Movable(x);
  WriteMoved(context, 0, x.dtype(), shape, [&](Tensor& out) {
    if (!(shape == x.shape())) FillAll(context, MovableZero(x.dtype()), 0, out);
    std::vector<int64_t> from_strides = x.shape().Strides(), to_strides = shape.Strides(), sizes;
    int64_t from_offset = 0, to_offset = 0;
    for (size_t axis = 0; axis < x.rank(); ++axis) {
      int64_t surplus = x.dim(axis) - shape[axis];
      from_offset += std::max<int64_t>(0, surplus) / 2 * from_strides[axis];
      to_offset += std::max<int64_t>(0, -surplus) / 2 * to_strides[axis];
      sizes.push_back(std::min(x.dim(axis), shape[axis]));
    }
    CopyStrided(context, from, from_offset, out, to_offset, BoxAxes(sizes, from_strides, to_strides));
  });
}

void InferCenterCropPad(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  std::optional<SymbolicShape> wanted = ElementsOf(context, 1);
  DType dtype = context.InputDType(0);
  if (!x) return context.SetOutput(0, dtype);
  std::vector<size_t> axes = CroppedAxes(context.node(), x->size());
  Require(!wanted || wanted->size() == axes.size(), "the shape does not have a number for each of ", axes.size(),
          " axes");
  SymbolicShape shape = *x;
  for (size_t i = 0; i < axes.size(); ++i) shape[axes[i]] = wanted ? (*wanted)[i] : Dim();
  context.SetOutput(0, dtype, ShapeFromElements(shape));
}

}  // namespace

FERRY_OPERATOR(CenterCropPad, {.compute = ComputeCenterCropPad, .infer = InferCenterCropPad});

}  // namespace ferry

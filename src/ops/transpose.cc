#include <numeric>

#include "ops/operator.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

// Axis i of the result is axis [i] of the input.
std::vector<size_t> Permutation(const Node& node, size_t rank) {
  if (!node.Has("perm")) {
    std::vector<size_t> reversed(rank);
    std::iota(reversed.rbegin(), reversed.rend(), size_t{0});
    return reversed;
  }
  std::vector<int64_t> perm = node.Ints("perm");
  Require(perm.size() == rank, "perm has ", perm.size(), " axes, the input has rank ", rank);
  return NormalizeAxes(perm, rank);
}

// True when only axes of one element change places: the elements stay where they are.
bool KeepsOrder(const Shape& shape, const std::vector<size_t>& perm) {
  size_t previous = 0;
  for (size_t axis : perm) {
    if (shape[axis] == 1) continue;
    if (axis < previous) return false;
    previous = axis;
  }
  return true;
}

void ComputeTranspose(OpContext& context) {
  const Tensor& data = context.Input(0);
  std::vector<size_t> perm = Permutation(context.node(), data.rank());
  Shape shape = data.shape();
  for (size_t axis = 0; axis < perm.size(); ++axis) shape[axis] = data.dim(perm[axis]);
  Tensor from = Movable(data);
  WriteMoved(context, 0, data.dtype(), shape, [&](Tensor& out) {
    if (KeepsOrder(data.shape(), perm)) return CopyStrided(context, from, 0, out, 0, {{from.size(), 1, 1}});
    std::vector<int64_t> from_strides = data.shape().Strides(), to_strides = shape.Strides();
    std::vector<CopyAxis> axes;
    for (size_t axis = 0; axis < perm.size(); ++axis)
      axes.push_back({shape[axis], from_strides[perm[axis]], to_strides[axis]});
    CopyStrided(context, from, 0, out, 0, std::move(axes));
  });
}

void InferTranspose(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  if (!data) return context.SetOutput(0, context.InputDType(0));
  SymbolicShape shape;
  for (size_t axis : Permutation(context.node(), data->size())) shape.push_back((*data)[axis]);
  context.SetOutput(0, context.InputDType(0), std::move(shape));
  if (data->size() <= 1 && context.InputElements(0)) context.SetOutputElements(0, *context.InputElements(0));
}

}  // namespace

FERRY_OPERATOR(Transpose, {.compute = ComputeTranspose, .infer = InferTranspose, .moves_elements = true});

}  // namespace ferry

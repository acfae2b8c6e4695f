// Every window of one axis: the axis becomes the windows' number, a new last axis what is in them.
#include "ops/operator.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

struct Windows {
  size_t axis;
  int64_t size, step;

  Windows(const Node& node, size_t rank)
      : axis(NormalizeAxis(node.Int("dim", -1), rank)), size(node.Int("size", 0)), step(node.Int("step", 1)) {
    Require(size > 0 && step > 0, "size and step must be positive, are ", size, " and ", step);
  }
  int64_t Count(int64_t length) const {
    Require(size <= length, "a window of ", size, " does not fit an axis of ", length);
    return (length - size) / step + 1;
  }
};

void ComputeUnfoldTensor(OpContext& context) {
  const Tensor& x = context.Input(0);
  Windows windows(context.node(), x.rank());
  Shape shape = x.shape();
  shape[windows.axis] = windows.Count(x.dim(windows.axis));
  shape.push_back(windows.size);
  std::vector<int64_t> strides = x.shape().Strides(), out_strides = shape.Strides();
  Tensor from = Movable(x);
  WriteMoved(context, 0, x.dtype(), shape, [&](Tensor& to) {
    std::vector<CopyAxis> axes;
    for (size_t i = 0; i < x.rank(); ++i)
      axes.push_back({shape[i], i == windows.axis ? strides[i] * windows.step : strides[i], out_strides[i]});
    axes.push_back({windows.size, strides[windows.axis], 1});
    CopyStrided(context, from, 0, to, 0, std::move(axes));
  });
}

void InferUnfoldTensor(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  DType type = context.InputDType(0);
  if (!x) return context.SetOutput(0, type);
  Windows windows(context.node(), x->size());
  SymbolicShape shape = *x;
  shape[windows.axis] = shape[windows.axis].known() ? Dim(windows.Count(*shape[windows.axis].value)) : Dim();
  shape.emplace_back(windows.size);
  context.SetOutput(0, type, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, UnfoldTensor, {.compute = ComputeUnfoldTensor, .infer = InferUnfoldTensor});

}  // namespace ferry

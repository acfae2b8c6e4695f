#include <algorithm>

#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

constexpr int64_t kElementsPerPiece = 1 << 14;

size_t BatchDims(const Node& node, size_t data_rank, size_t indices_rank) {
  Require(data_rank > 0 && indices_rank > 0, "data and indices must have at least one axis");
  int64_t batch_dims = node.Int("batch_dims", 0);
  Require(batch_dims >= 0 && batch_dims < static_cast<int64_t>(std::min(data_rank, indices_rank)), "batch_dims ",
          batch_dims, " does not fit ranks ", data_rank, " and ", indices_rank);
  return static_cast<size_t>(batch_dims);
}

void ComputeGatherND(OpContext& context) {
  const Tensor& data = context.Input(0);
  const Tensor& indices = context.Input(1);
  size_t batch_dims = BatchDims(context.node(), data.rank(), indices.rank());
  for (size_t axis = 0; axis < batch_dims; ++axis)
    Require(data.dim(axis) == indices.dim(axis), "batch axis ", axis, " differs in shapes ", data.shape(), " and ",
            indices.shape());
  int64_t tuple = indices.shape().back();
  Require(tuple >= 1 && tuple <= static_cast<int64_t>(data.rank() - batch_dims), "index tuples of length ", tuple,
          " do not fit data of shape ", data.shape(), " with batch_dims ", batch_dims);
  size_t first_kept = batch_dims + static_cast<size_t>(tuple);
  std::vector<int64_t> dims(indices.shape().begin(), indices.shape().end() - 1);
  dims.insert(dims.end(), data.shape().begin() + first_kept, data.shape().end());
  int64_t run = data.shape().CountBetween(first_kept, data.rank());
  std::vector<int64_t> offsets = TupleOffsets(indices, data.shape(), batch_dims);
  Tensor from = Movable(data);
  WriteMoved(context, 0, data.dtype(), Shape(dims), [&](Tensor& out) {
    if (out.size() == 0) return;
    context.ParallelFor(static_cast<int64_t>(offsets.size()), std::max<int64_t>(1, kElementsPerPiece / run),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i)
                            CopyRun(from, offsets[static_cast<size_t>(i)], out, i * run, run);
                        });
  });
}

void InferGatherND(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  const SymbolicShape* indices = context.InputShape(1);
  DType dtype = context.InputDType(0);
  if (!data || !indices) return context.SetOutput(0, dtype);
  size_t batch_dims = BatchDims(context.node(), data->size(), indices->size());
  const Dim& tuple = indices->back();
  if (!tuple.known()) return context.SetOutput(0, dtype);
  Require(*tuple.value >= 1 && *tuple.value <= static_cast<int64_t>(data->size() - batch_dims),
          "index tuples of length ", *tuple.value, " do not fit data of shape ", *data);
  SymbolicShape shape(indices->begin(), indices->end() - 1);
  shape.insert(shape.end(), data->begin() + static_cast<ptrdiff_t>(batch_dims) + *tuple.value, data->end());
  context.SetOutput(0, dtype, std::move(shape));
}

}  // namespace

FERRY_OPERATOR(GatherND, {.compute = ComputeGatherND, .infer = InferGatherND, .moves_elements = true});

}  // namespace ferry

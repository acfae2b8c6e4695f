#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

void ComputeTile(OpContext& context) {
  const Tensor& data = context.Input(0);
  std::vector<int64_t> repeats = IntegerList(context.Input(1), "repeats");
  Require(repeats.size() == data.rank(), "repeats has ", repeats.size(), " numbers, the input has rank ", data.rank());
  Shape shape = data.shape();
  for (size_t axis = 0; axis < shape.rank(); ++axis) shape[axis] = CheckedProduct(data.dim(axis), repeats[axis]);
  Tensor from = Movable(data);
  WriteMoved(context, 0, data.dtype(), shape, [&](Tensor& out) {
    std::vector<int64_t> from_strides = data.shape().Strides(), to_strides = shape.Strides();
    std::vector<CopyAxis> axes;
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      axes.push_back({repeats[axis], 0, data.dim(axis) * to_strides[axis]});
      axes.push_back({data.dim(axis), from_strides[axis], to_strides[axis]});
    }
    CopyStrided(context, from, 0, out, 0, std::move(axes));
  });
}

void InferTile(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  DType dtype = context.InputDType(0);
  std::optional<SymbolicShape> repeats = ElementsOf(context, 1);
  if (!data) {
    std::optional<size_t> rank = repeats ? std::optional(repeats->size()) : ListLength(context, 1);
    return rank ? context.SetOutput(0, dtype, UnknownShape(*rank)) : context.SetOutput(0, dtype);
  }
  if (!repeats) return context.SetOutput(0, dtype, UnknownShape(data->size()));
  Require(repeats->size() == data->size(), "repeats has ", repeats->size(), " numbers, the input has rank ",
          data->size());
  SymbolicShape shape;
  for (size_t axis = 0; axis < data->size(); ++axis) shape.push_back((*data)[axis] * (*repeats)[axis]);
  context.SetOutput(0, dtype, ShapeFromElements(shape));

  std::optional<SymbolicShape> elements = ElementsOf(context, 0);
  if (!elements || shape.size() != 1 || !shape[0].known() || *shape[0].value > static_cast<int64_t>(kMostKnownElements))
    return;
  SymbolicShape repeated;
  while (!elements->empty() && repeated.size() < static_cast<size_t>(*shape[0].value))
    repeated.insert(repeated.end(), elements->begin(), elements->end());
  context.SetOutputElements(0, std::move(repeated));
}

}  // namespace

FERRY_OPERATOR(Tile, {.compute = ComputeTile, .infer = InferTile, .moves_elements = true});

}  // namespace ferry

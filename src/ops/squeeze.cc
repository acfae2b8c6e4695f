#include <algorithm>

#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"

namespace ferry {
namespace {

void ComputeSqueeze(OpContext& context) {
  const Tensor& data = context.Input(0);
  std::vector<bool> dropped(data.rank());
  if (const Tensor* axes = context.OptionalInput(1)) {
    for (size_t axis : NormalizeAxes(IntegerList(*axes, "axes"), data.rank())) {
      Require(data.dim(axis) == 1, "axis ", axis, " of shape ", data.shape(), " is not 1 and cannot be squeezed");
      dropped[axis] = true;
    }
  } else {
    for (size_t axis = 0; axis < data.rank(); ++axis) dropped[axis] = data.dim(axis) == 1;
  }
  std::vector<int64_t> kept;
  for (size_t axis = 0; axis < data.rank(); ++axis)
    if (!dropped[axis]) kept.push_back(data.dim(axis));
  context.SetOutput(0, data.Reshaped(Shape(kept)));
}

void InferSqueeze(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  if (!data) return InferView(context, std::nullopt);
  std::vector<bool> dropped(data->size());
  if (context.Has(1)) {
    std::optional<std::vector<int64_t>> axes = context.InputInts(1);
    if (!axes) {
      std::optional<size_t> count = ListLength(context, 1);
      if (!count || *count > data->size()) return InferView(context, std::nullopt);
      return InferView(context, UnknownShape(data->size() - *count));
    }
    for (size_t axis : NormalizeAxes(*axes, data->size())) {
      const Dim& dim = (*data)[axis];
      Require(!dim.known() || *dim.value == 1, "axis ", axis, " of shape ", *data, " is not 1 and cannot be squeezed");
      dropped[axis] = true;
    }
  } else {
    for (size_t axis = 0; axis < data->size(); ++axis) {
      const Dim& dim = (*data)[axis];
      if (!dim.known()) return InferView(context, std::nullopt);  // it may turn out to be 1
      dropped[axis] = *dim.value == 1;
    }
  }
  SymbolicShape kept;
  for (size_t axis = 0; axis < data->size(); ++axis)
    if (!dropped[axis]) kept.push_back((*data)[axis]);
  InferView(context, std::move(kept));
}

// True where the result has a new axis of one element.
std::vector<bool> NewAxes(std::span<const int64_t> axes, size_t data_rank) {
  std::vector<bool> is_new(data_rank + axes.size());
  for (size_t axis : NormalizeAxes(axes, is_new.size())) is_new[axis] = true;
  return is_new;
}

void ComputeUnsqueeze(OpContext& context) {
  const Tensor& data = context.Input(0);
  std::vector<int64_t> dims;
  size_t next = 0;
  for (bool is_new : NewAxes(IntegerList(context.Input(1), "axes"), data.rank()))
    dims.push_back(is_new ? 1 : data.dim(next++));
  context.SetOutput(0, data.Reshaped(Shape(dims)));
}

void InferUnsqueeze(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  std::optional<std::vector<int64_t>> axes = context.InputInts(1);
  if (!data) return InferView(context, std::nullopt);
  if (!axes) {
    std::optional<size_t> count = ListLength(context, 1);
    return InferView(context, count ? std::optional(UnknownShape(data->size() + *count)) : std::nullopt);
  }
  SymbolicShape dims;
  size_t next = 0;
  for (bool is_new : NewAxes(*axes, data->size())) dims.push_back(is_new ? Dim(1) : (*data)[next++]);
  InferView(context, std::move(dims));
}

}  // namespace

FERRY_OPERATOR(Squeeze, {.compute = ComputeSqueeze, .infer = InferSqueeze, .is_view = true, .moves_elements = true});
FERRY_OPERATOR(Unsqueeze,
               {.compute = ComputeUnsqueeze, .infer = InferUnsqueeze, .is_view = true, .moves_elements = true});

}  // namespace ferry

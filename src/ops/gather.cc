#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/take.h"

namespace ferry {
namespace {

void ComputeGather(OpContext& context) {
  const Tensor& data = context.Input(0);
  const Tensor& indices = context.Input(1);
  size_t axis = NormalizeAxis(context.node().Int("axis", 0), data.rank());
  Shape shape = data.shape();
  shape.erase(axis);
  for (size_t k = 0; k < indices.rank(); ++k) shape.insert(axis + k, indices.dim(k));
  WriteTaken(context, 0, data, axis, CheckedIndices(indices, data.dim(axis), axis), shape);
}

void InferGather(InferContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  const SymbolicShape* indices = context.InputShape(1);
  DType dtype = context.InputDType(0);
  if (!data || !indices) return context.SetOutput(0, dtype);
  size_t axis = NormalizeAxis(context.node().Int("axis", 0), data->size());
  SymbolicShape shape = *data;
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(axis), indices->begin(), indices->end());
  bool is_list = shape.size() <= 1;
  context.SetOutput(0, dtype, std::move(shape));

  std::optional<SymbolicShape> elements = ElementsOf(context, 0);
  std::optional<std::vector<int64_t>> chosen = context.InputInts(1);
  if (!is_list || data->size() != 1 || !elements || !chosen || chosen->size() > kMostKnownElements) return;
  SymbolicShape kept;
  for (int64_t index : *chosen)
    kept.push_back((*elements)[static_cast<size_t>(CheckedIndex(index, static_cast<int64_t>(elements->size()), 0))]);
  context.SetOutputElements(0, std::move(kept));
}

}  // namespace

FERRY_OPERATOR(Gather,
               {.compute = ComputeGather, .infer = InferGather, .reads_anywhere = kInput0, .moves_elements = true});

}  // namespace ferry

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/elements.h"
#include "ops/support/indices.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

void ComputeGatherElements(OpContext& context) {
  const Tensor& data = context.Input(0);
  const Tensor& indices = context.Input(1);
  size_t axis = NormalizeAxis(context.node().Int("axis", 0), data.rank());
  CheckElementIndices(data.shape(), indices.shape(), axis);
  std::vector<int64_t> places = ElementPlaces(indices, data.shape(), axis);
  Tensor from = Movable(data);
  WriteMoved(context, 0, data.dtype(), indices.shape(), [&](Tensor& out) {
    ForEachWidth(out.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* source = RawData<T>(from);
      T* target = MutableRawData<T>(out);
      ForLookedParts(static_cast<int64_t>(places.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) target[i] = source[places[static_cast<size_t>(i)]];
      });
    });
  });
}

void InferGatherElements(InferContext& context) {
  const SymbolicShape* indices = context.InputShape(1);
  if (indices)
    context.SetOutput(0, context.InputDType(0), *indices);
  else
    context.SetOutput(0, context.InputDType(0));
}

}  // namespace

FERRY_OPERATOR(GatherElements,
               {.compute = ComputeGatherElements, .infer = InferGatherElements, .moves_elements = true});

}  // namespace ferry

#include "ops/operator.h"
#include "ops/support/elements.h"
#include "ops/support/infer.h"
#include "ops/support/reduce_into.h"
#include "ops/support/scatter.h"

namespace ferry {

static void ComputeScatterElements(OpContext& context) {
  const Tensor& data = context.Input(0);
  const Tensor& indices = context.Input(1);
  size_t axis = NormalizeAxis(context.node().Int("axis", 0), data.rank());
  CheckElementIndices(data.shape(), indices.shape(), axis);
  Require(context.Input(2).shape() == indices.shape(), "updates of shape ", context.Input(2).shape(),
          " must have the shape of indices, ", indices.shape());
  std::vector<int64_t> places = ElementPlaces(indices, data.shape(), axis);
  ScatterOver(context, data, context.Input(2), [&](const Tensor& updates, Tensor& out) {
    ScatterRuns(ReadScatterReduction(context.node()), updates, places, 1, out);
  });
}

FERRY_OPERATOR(ScatterElements, {.compute = ComputeScatterElements, .infer = InferSameAlongAxis, .in_place = kInput0});

}  // namespace ferry

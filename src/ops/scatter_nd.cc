#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/reduce_into.h"
#include "ops/support/scatter.h"

namespace ferry {

static void ComputeScatterND(OpContext& context) {
  const Tensor& data = context.Input(0);
  const Tensor& indices = context.Input(1);
  Require(data.rank() > 0 && indices.rank() > 0, "data and indices must have at least one axis");
  int64_t tuple = indices.shape().back();
  Require(tuple <= static_cast<int64_t>(data.rank()), "index tuples of length ", tuple, " do not fit data of shape ",
          data.shape());
  std::vector<int64_t> wanted(indices.shape().begin(), indices.shape().end() - 1);
  wanted.insert(wanted.end(), data.shape().begin() + tuple, data.shape().end());
  Require(context.Input(2).shape() == Shape(wanted), "updates have shape ", context.Input(2).shape(), ", expected ",
          Shape(wanted));
  std::vector<int64_t> places = TupleOffsets(indices, data.shape(), 0);
  int64_t run = data.shape().CountBetween(static_cast<size_t>(tuple), data.rank());
  ScatterOver(context, data, context.Input(2), [&](const Tensor& updates, Tensor& out) {
    ScatterRuns(ReadScatterReduction(context.node()), updates, places, run, out);
  });
}

FERRY_OPERATOR(ScatterND, {.compute = ComputeScatterND, .infer = InferSameAsInput, .in_place = kInput0});

}  // namespace ferry

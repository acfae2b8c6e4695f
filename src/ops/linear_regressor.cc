#include "ops/operator.h"
#include "ops/support/linear_model.h"
#include "ops/support/ml.h"

namespace ferry {

static void ComputeLinearRegressor(OpContext& context) {
  const Node& node = context.node();
  PostTransform transform = ReadPostTransform(node);
  FeatureRows x = ReadFeatureRows(context.Input(0));
  LinearModel model = ReadLinearModel(node, x.features);
  Require(model.targets == node.Int("targets", 1), "there are coefficients for ", model.targets,
          " targets, 'targets' is ", node.Int("targets", 1));
  std::vector<double> scores(static_cast<size_t>(CheckedProduct(x.rows, model.targets)));
  for (int64_t n = 0; n < x.rows; ++n) {
    std::span<double> row(scores.data() + n * model.targets, static_cast<size_t>(model.targets));
    model.Evaluate(x.Row(n), row);
    ApplyPostTransform(transform, row);
  }
  WriteScores(context, 0, x.rows, model.targets, scores);
}

static void InferLinearRegressor(InferContext& context) {
  context.SetOutput(0, DType::kFloat, {InferRows(context), context.node().Int("targets", 1)});
}

FERRY_OPERATOR_IN(ml, LinearRegressor, {.compute = ComputeLinearRegressor, .infer = InferLinearRegressor});

}  // namespace ferry

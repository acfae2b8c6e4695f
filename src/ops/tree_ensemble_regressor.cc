#include "ops/operator.h"
#include "ops/support/trees.h"

namespace ferry {
namespace {

Aggregate ReadAggregate(const Node& node) {
  std::string name = node.String("aggregate_function", "SUM");
  static constexpr const char* kNames[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Aggregate>(i);
  Fail(ErrorCode::kInvalidModel, "attribute 'aggregate_function' must be AVERAGE, SUM, MIN or MAX, is '",
       Printable(name), "'");
}

void ComputeTreeEnsembleRegressor(OpContext& context) {
  const Node& node = context.node();
  PostTransform transform = ReadPostTransform(node);
  FeatureRows x = ReadFeatureRows(context.Input(0));
  int64_t targets = node.Int("n_targets", 1);
  auto model = context.Prepared<TreeEnsembleModel>([&] { return ReadLegacyTrees(node, "target", targets); });
  std::vector<double> base = ReadFloatsOrTensor(node, "base_values");
  Require(base.empty() || static_cast<int64_t>(base.size()) == targets, "there are ", base.size(), " base values for ",
          targets, " targets");
  std::vector<double> all(static_cast<size_t>(CheckedProduct(x.rows, targets)));
  EvaluateRows(context, *model, x, ReadAggregate(node),
               [&](int64_t n, std::span<double> scores, std::span<const char>) {
                 for (size_t t = 0; t < base.size(); ++t) scores[t] += base[t];
                 ApplyPostTransform(transform, scores);
                 std::copy(scores.begin(), scores.end(), all.begin() + n * targets);
               });
  WriteScores(context, 0, x.rows, targets, all);
}

void InferTreeEnsembleRegressor(InferContext& context) {
  context.SetOutput(0, DType::kFloat, {InferRows(context), context.node().Int("n_targets", 1)});
}

}  // namespace

FERRY_OPERATOR_IN(ml, TreeEnsembleRegressor,
                  {.compute = ComputeTreeEnsembleRegressor, .infer = InferTreeEnsembleRegressor});

}  // namespace ferry

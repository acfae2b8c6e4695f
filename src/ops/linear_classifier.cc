#include "ops/operator.h"
#include "ops/support/linear_model.h"
#include "ops/support/ml.h"

namespace ferry {
namespace {

// One score for two classes speaks for the second class and against the first.
bool IsBinary(int64_t models, const ClassLabels& labels) { return models == 1 && labels.size() == 2; }

// One class alone: its label where the score is on its side, else 0 or an empty string.
void WriteOneClassLabel(Tensor& y, int64_t row, const ClassLabels& labels, bool positive) {
  if (positive)
    labels.Write(y, row, 0);
  else if (labels.strings.empty())
    y.MutableData<int64_t>()[row] = 0;
  else
    y.MutableData<std::string>()[row].clear();
}

void ComputeLinearClassifier(OpContext& context) {
  const Node& node = context.node();
  ClassLabels labels = ReadClassLabels(node, "classlabels_ints", "classlabels_strings");
  PostTransform transform = ReadPostTransform(node);
  FeatureRows x = ReadFeatureRows(context.Input(0));
  LinearModel model = ReadLinearModel(node, x.features);
  int64_t columns = IsBinary(model.targets, labels) ? 2 : model.targets;
  Require(columns == static_cast<int64_t>(labels.size()), "there are coefficients for ", columns, " classes and ",
          labels.size(), " class labels");
  std::vector<double> scores(static_cast<size_t>(CheckedProduct(x.rows, columns)));
  Tensor& y = context.Output(0, labels.dtype(), {x.rows});
  for (int64_t n = 0; n < x.rows; ++n) {
    std::span<double> row(scores.data() + n * columns, static_cast<size_t>(columns));
    model.Evaluate(x.Row(n), row.last(static_cast<size_t>(model.targets)));
    if (columns != model.targets) row[0] = -row[1];
    double raw = row[0];
    size_t best = TransformAndPick(transform, row);
    if (columns > 1)
      labels.Write(y, n, best);
    else
      WriteOneClassLabel(y, n, labels, transform == PostTransform::kNone ? raw >= 0 : row[0] >= 0.5);
  }
  WriteScores(context, 1, x.rows, columns, scores);
}

void InferLinearClassifier(InferContext& context) {
  ClassLabels labels = ReadClassLabels(context.node(), "classlabels_ints", "classlabels_strings");
  InferClassifier(context, labels.dtype(), static_cast<int64_t>(labels.size()));
}

}  // namespace

FERRY_OPERATOR_IN(ml, LinearClassifier, {.compute = ComputeLinearClassifier, .infer = InferLinearClassifier});

}  // namespace ferry

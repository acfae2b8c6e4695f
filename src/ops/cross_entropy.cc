// Losses of class labels against scores: NegativeLogLikelihoodLoss and, with a softmax before it,
// SoftmaxCrossEntropyLoss.
#include <string>

#include "ops/operator.h"
#include "ops/support/cast_tensor.h"
#include "ops/support/infer.h"
#include "ops/support/lines.h"
#include "ops/support/softmax_line.h"

namespace ferry {
namespace {

// Scores are [batch, classes, places…], labels [batch, places…].
struct Problem {
  explicit Problem(const OpContext& context) : scores(context.Input(0)), labels(context.Input(1)) {
    const Shape& shape = scores.shape();
    Require(shape.rank() >= 2, "scores must be [batch, classes, …], have shape ", shape);
    Require(IsFloating(scores.dtype()), "scores must be floats, got ", scores.dtype());
    Require(labels.dtype() == DType::kInt32 || labels.dtype() == DType::kInt64, "labels must be int32 or int64, got ",
            labels.dtype());
    Shape expected = shape;
    expected.erase(1);
    Require(labels.shape() == expected, "labels must have shape ", expected, " for scores of shape ", shape, ", have ",
            labels.shape());
    classes = shape[1];
    places = shape.CountBetween(2, shape.rank());
    if (const Tensor* given = context.OptionalInput(2)) {
      Require(given->size() == classes, "weights must be one per class (", classes, "), have shape ", given->shape());
      weights = CastTensor(*given, DType::kDouble);
    }
    const Node& node = context.node();
    reduction = node.String("reduction", "mean");
    Require(reduction == "none" || reduction == "sum" || reduction == "mean",
            "attribute 'reduction' must be \"none\", \"sum\" or \"mean\", is \"", Printable(reduction), "\"");
    if (node.Has("ignore_index")) ignored = node.Int("ignore_index", 0);
  }

  const Tensor& scores;
  const Tensor& labels;
  Tensor weights;  // double; undefined when all are 1
  int64_t classes, places;
  std::string reduction;
  std::optional<int64_t> ignored;
};

// The loss of each label into `losses`; gives the sum of the weights that went into them.
double LossOfEach(const Problem& problem, const double* log_probabilities, double* losses) {
  std::vector<int64_t> labels = ToInt64Vector(problem.labels);
  double total_weight = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    int64_t label = labels[i], batch = static_cast<int64_t>(i) / problem.places,
            place = static_cast<int64_t>(i) % problem.places;
    losses[i] = 0;
    if (problem.ignored && label == *problem.ignored) continue;
    Require(label >= 0 && label < problem.classes, "label ", label, " is outside the ", problem.classes, " classes");
    double weight = problem.weights.defined() ? problem.weights.Data<double>()[label] : 1;
    losses[i] = -log_probabilities[(batch * problem.classes + label) * problem.places + place] * weight;
    total_weight += weight;
  }
  return total_weight;
}

void WriteLoss(OpContext& context, const Problem& problem, const Tensor& log_probabilities) {
  Tensor losses(DType::kDouble, problem.labels.shape());
  double weight = LossOfEach(problem, log_probabilities.Data<double>(), losses.MutableData<double>());
  DType type = problem.scores.dtype();
  if (problem.reduction == "none") return CastInto(losses, context.Output(0, type, losses.shape()));
  double sum = 0;
  for (double loss : losses.Span<double>()) sum += loss;
  if (problem.reduction == "mean") sum /= weight;
  CastInto(Tensor::Scalar(sum), context.Output(0, type, {}));
}

void ComputeNegativeLogLikelihoodLoss(OpContext& context) {
  Problem problem(context);
  WriteLoss(context, problem, CastTensor(problem.scores, DType::kDouble));
}

void ComputeSoftmaxCrossEntropyLoss(OpContext& context) {
  Problem problem(context);
  Tensor log_probabilities(DType::kDouble, problem.scores.shape());
  RunLines(context, CastTensor(problem.scores, DType::kDouble), log_probabilities, 1,
           [](const void* x, void* y, int64_t count) {
             LogSoftmaxLine(static_cast<const double*>(x), static_cast<double*>(y), count);
           });
  WriteLoss(context, problem, log_probabilities);
  if (context.Wants(1)) CastInto(log_probabilities, context.Output(1, problem.scores.dtype(), problem.scores.shape()));
}

void InferLoss(InferContext& context) {
  DType type = context.InputDType(0);
  context.SetOutput(1, context.InputType(0));
  if (context.node().String("reduction", "mean") != "none") return context.SetOutput(0, type, SymbolicShape{});
  const SymbolicShape* scores = context.InputShape(0);
  const SymbolicShape* labels = context.InputShape(1);
  if (labels) return context.SetOutput(0, type, *labels);
  if (!scores || scores->size() < 2) return context.SetOutput(0, type);
  SymbolicShape shape = *scores;
  shape.erase(shape.begin() + 1);
  context.SetOutput(0, type, std::move(shape));
}

}  // namespace

FERRY_OPERATOR(NegativeLogLikelihoodLoss, {.compute = ComputeNegativeLogLikelihoodLoss, .infer = InferLoss});
FERRY_OPERATOR(SoftmaxCrossEntropyLoss, {.compute = ComputeSoftmaxCrossEntropyLoss, .infer = InferLoss});

}  // namespace ferry

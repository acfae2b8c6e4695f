#include "ops/support/ml.h"

#include <algorithm>
#include <cmath>

#include "ops/support/dispatch.h"
#include "ops/support/widen.h"

namespace ferry {

std::vector<double> AsDoubles(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat16) return AsDoubles(WidenToFloat(tensor));
  std::vector<double> values(static_cast<size_t>(tensor.size()));
  Dispatch(TypeList<float, double, int32_t, int64_t>{}, tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = tensor.Data<T>();
    std::transform(from, from + tensor.size(), values.begin(), [](T v) { return static_cast<double>(v); });
  });
  return values;
}

FeatureRows ReadFeatureRows(const Tensor& x) {
  Require(x.rank() == 1 || x.rank() == 2, "the input must be of shape [N, C] or [C], is ", x.shape());
  return {x.rank() == 2 ? x.dim(0) : 1, x.shape().back(), AsDoubles(x)};
}

Dim InferRows(const InferContext& context) {
  const SymbolicShape* shape = context.InputShape(0);
  if (!shape) return {};
  if (shape->size() != 1 && shape->size() != 2)
    Fail(ErrorCode::kInvalidModel, "the input must be of shape [N, C] or [C], is ", *shape);
  return shape->size() == 2 ? shape->front() : Dim(1);
}

Dim InferFeatures(const InferContext& context) {
  const SymbolicShape* shape = context.InputShape(0);
  return shape && !shape->empty() ? shape->back() : Dim();
}

PostTransform ReadPostTransform(const Node& node) {
  std::string name = node.String("post_transform", "NONE");
  static constexpr const char* kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<PostTransform>(i);
  Fail(ErrorCode::kInvalidModel, "post_transform must be NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT, is '",
       Printable(name), "'");
}

double Logistic(double value) {
  double positive = 1.0 / (1.0 + std::exp(-std::abs(value)));
  return value < 0 ? 1.0 - positive : positive;
}

namespace {

void Softmax(std::span<double> scores) {
  double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

// A score of zero means "no vote" and stays zero.
void SoftmaxZero(std::span<double> scores) {
  constexpr double kZero = 1e-7;
  double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::abs(score) > kZero ? std::exp(score - largest) : 0.0;
  if (sum == 0)
    std::fill(scores.begin(), scores.end(), 0.5);
  else
    for (double& score : scores) score /= sum;
}

// Winitzki's closed form of the inverse error function: models were fitted against runtimes that all compute probit
// this way, so a more exact quantile would move their scores.
double Probit(double probability) {
  constexpr double kPi = 3.14159265358979323846, kA = 0.147;
  double x = 2 * probability - 1;
  double log = std::log((1 - x) * (1 + x));
  double half = 2 / (kPi * kA) + 0.5 * log;
  double root = std::sqrt(std::sqrt(half * half - log / kA) - half);
  return std::sqrt(2.0) * (x < 0 ? -root : root);
}

}  // namespace

void ApplyPostTransform(PostTransform transform, std::span<double> scores) {
  if (scores.empty()) return;
  switch (transform) {
    case PostTransform::kNone: break;
    case PostTransform::kSoftmax: Softmax(scores); break;
    case PostTransform::kSoftmaxZero: SoftmaxZero(scores); break;
    case PostTransform::kLogistic: std::transform(scores.begin(), scores.end(), scores.begin(), Logistic); break;
    case PostTransform::kProbit: std::transform(scores.begin(), scores.end(), scores.begin(), Probit); break;
  }
}

size_t TransformAndPick(PostTransform transform, std::span<double> scores) {
  size_t winner = IndexOfLargest(scores);
  ApplyPostTransform(transform, scores);
  return transform == PostTransform::kSoftmaxZero ? IndexOfLargest(scores) : winner;
}

void ClassLabels::Write(Tensor& labels, int64_t row, size_t index) const {
  if (strings.empty())
    labels.MutableData<int64_t>()[row] = ints[index];
  else
    labels.MutableData<std::string>()[row] = strings[index];
}

ClassLabels ReadClassLabels(const Node& node, std::string_view ints_name, std::string_view strings_name) {
  ClassLabels labels{node.Ints(ints_name), node.Strings(strings_name)};
  if (labels.ints.empty() == labels.strings.empty())
    Fail(ErrorCode::kInvalidModel, "one of the attributes '", ints_name, "' and '", strings_name,
         "' must be given, got ", labels.ints.empty() ? "neither" : "both");
  return labels;
}

void InferClassifier(InferContext& context, DType label_type, Dim columns) {
  Dim rows = InferRows(context);
  context.SetOutput(0, label_type, {rows});
  context.SetOutput(1, DType::kFloat, {rows, std::move(columns)});
}

void WriteScores(OpContext& context, size_t index, int64_t rows, int64_t columns, std::span<const double> scores) {
  Tensor& out = context.Output(index, DType::kFloat, {rows, columns});
  std::transform(scores.begin(), scores.end(), out.MutableData<float>(),
                 [](double v) { return static_cast<float>(v); });
}

size_t IndexOfLargest(std::span<const double> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace ferry

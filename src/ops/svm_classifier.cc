#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/operator.h"
#include "ops/support/ml.h"
#include "ops/support/svm.h"

namespace ferry {
namespace {

// Two ways to classify: with support vectors, by votes of one machine per pair of classes; without, by one weighted sum
// per class.
struct Classifier {
  explicit Classifier(const Node& node);
  void CheckFeatures(int64_t features) const;

  bool has_vectors() const { return vector_count > 0; }
  bool has_probabilities() const { return has_vectors() && !prob_a.empty(); }
  size_t pair_count() const { return classes * (classes - 1) / 2; }
  // Numbers of scores before the transform.
  size_t score_count() const { return has_vectors() && !has_probabilities() ? pair_count() : classes; }

  // Fills `scores` and returns the winning class.
  size_t Evaluate(std::span<const double> x, std::vector<double>& scores) const;

  ClassLabels labels;
  size_t classes;
  std::vector<int64_t> vectors_per_class;
  std::vector<float> coefficients, vectors, rho, prob_a, prob_b;
  int64_t vector_count = 0;
  SvmKernel kernel;

 private:
  size_t EvaluatePairs(std::span<const double> x, std::vector<double>& pairs) const;
  void Probabilities(std::span<const double> pairs, std::vector<double>& scores) const;
};

Classifier::Classifier(const Node& node)
    : labels(ReadClassLabels(node, "classlabels_ints", "classlabels_strings")),
      classes(labels.size()),
      vectors_per_class(node.Ints("vectors_per_class")),
      coefficients(node.Floats("coefficients")),
      vectors(node.Floats("support_vectors")),
      rho(node.Floats("rho")),
      prob_a(node.Floats("prob_a")),
      prob_b(node.Floats("prob_b")),
      kernel(node, vectors_per_class.empty()) {
  for (int64_t count : vectors_per_class) {
    Require(count >= 0 && count <= static_cast<int64_t>(coefficients.size()), "attribute 'vectors_per_class' holds ",
            count);
    vector_count += count;
  }
  Require(!rho.empty(), "attribute 'rho' is missing");
  if (!has_vectors()) return;
  Require(vectors_per_class.size() == classes, "attribute 'vectors_per_class' has ", vectors_per_class.size(),
          " counts for ", classes, " classes");
  Require(classes >= 2, "support vectors need at least two classes");
  Require(rho.size() >= pair_count(), "attribute 'rho' has ", rho.size(), " values for ", pair_count(),
          " pairs of classes");
  Require(static_cast<int64_t>(coefficients.size()) == CheckedProduct(static_cast<int64_t>(classes) - 1, vector_count),
          "there are ", coefficients.size(), " coefficients for ", vector_count, " support vectors of ", classes,
          " classes");
  Require(prob_a.empty() || (prob_a.size() >= pair_count() && prob_b.size() == prob_a.size()),
          "attributes 'prob_a' and 'prob_b' must have a value for each of ", pair_count(), " pairs of classes");
}

void Classifier::CheckFeatures(int64_t features) const {
  int64_t rows = has_vectors() ? vector_count : static_cast<int64_t>(classes);
  auto given = static_cast<int64_t>(has_vectors() ? vectors.size() : coefficients.size());
  Require(given == CheckedProduct(rows, features), has_vectors() ? "the support vectors hold " : "there are ", given,
          " numbers for ", rows, " rows of ", features, " features");
}

size_t Classifier::EvaluatePairs(std::span<const double> x, std::vector<double>& pairs) const {
  auto count = static_cast<size_t>(vector_count);
  std::vector<double> kernels(count);
  for (size_t v = 0; v < count; ++v) kernels[v] = kernel(x, {vectors.data() + v * x.size(), x.size()});
  std::vector<size_t> first(classes + 1, 0);
  for (size_t c = 0; c < classes; ++c) first[c + 1] = first[c] + static_cast<size_t>(vectors_per_class[c]);
  std::vector<int> votes(classes, 0);
  auto weigh = [&](size_t coefficient_row, size_t of_class) {
    const float* weights = coefficients.data() + coefficient_row * count;
    double sum = 0;
    for (size_t v = first[of_class]; v < first[of_class + 1]; ++v) sum += static_cast<double>(weights[v]) * kernels[v];
    return sum;
  };
  pairs.clear();
  for (size_t i = 0; i < classes; ++i) {
    for (size_t j = i + 1; j < classes; ++j) {
      double score = static_cast<double>(rho[pairs.size()]) + weigh(j - 1, i) + weigh(i, j);
      ++votes[score > 0 ? i : j];
      pairs.push_back(score);
    }
  }
  return static_cast<size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
}

// Wu, Lin and Weng's second method: the class probabilities that fit the pairwise ones best, by fixed-point steps.
void CoupleProbabilities(const std::vector<double>& pairwise, std::vector<double>& p) {
  size_t k = p.size();
  std::vector<double> q(k * k, 0.0), qp(k);
  std::fill(p.begin(), p.end(), 1.0 / static_cast<double>(k));
  for (size_t t = 0; t < k; ++t) {
    for (size_t j = 0; j < k; ++j) {
      if (j == t) continue;
      q[t * k + t] += pairwise[j * k + t] * pairwise[j * k + t];
      q[t * k + j] = -pairwise[j * k + t] * pairwise[t * k + j];
    }
  }
  size_t steps = std::max<size_t>(100, k);
  for (size_t step = 0; step < steps; ++step) {
    double pqp = 0;
    for (size_t t = 0; t < k; ++t) {
      qp[t] = std::inner_product(p.begin(), p.end(), q.begin() + static_cast<std::ptrdiff_t>(t * k), 0.0);
      pqp += p[t] * qp[t];
    }
    double error = 0;
    for (double value : qp) error = std::max(error, std::abs(value - pqp));
    if (error < 0.005 / static_cast<double>(k)) break;
    for (size_t t = 0; t < k; ++t) {
      double diff = (pqp - qp[t]) / q[t * k + t];
      p[t] += diff;
      pqp = (pqp + diff * (diff * q[t * k + t] + 2 * qp[t])) / ((1 + diff) * (1 + diff));
      for (size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + diff * q[t * k + j]) / (1 + diff);
        p[j] /= 1 + diff;
      }
    }
  }
}

void Classifier::Probabilities(std::span<const double> pairs, std::vector<double>& scores) const {
  std::vector<double> pairwise(classes * classes, 0.0);
  size_t pair = 0;
  for (size_t i = 0; i < classes; ++i) {
    for (size_t j = i + 1; j < classes; ++j, ++pair) {
      double p = 1 - Logistic(pairs[pair] * static_cast<double>(prob_a[pair]) + static_cast<double>(prob_b[pair]));
      p = std::clamp(p, 1e-7, 1 - 1e-7);
      pairwise[i * classes + j] = p;
      pairwise[j * classes + i] = 1 - p;
    }
  }
  scores.resize(classes);
  CoupleProbabilities(pairwise, scores);
}

size_t Classifier::Evaluate(std::span<const double> x, std::vector<double>& scores) const {
  if (!has_vectors()) {
    scores.resize(classes);
    for (size_t c = 0; c < classes; ++c)
      scores[c] = kernel(x, {coefficients.data() + c * x.size(), x.size()}) + static_cast<double>(rho[0]);
    return IndexOfLargest(scores);
  }
  if (!has_probabilities()) return EvaluatePairs(x, scores);
  std::vector<double> pairs;
  size_t winner = EvaluatePairs(x, pairs);
  Probabilities(pairs, scores);
  return winner;
}

// A single score is shown for both of its classes, unless it stands for one class alone.
size_t ColumnCount(const Classifier& classifier) {
  return classifier.score_count() == 1 && classifier.classes == 2 ? 2 : classifier.score_count();
}

void ComputeSvmClassifier(OpContext& context) {
  const Node& node = context.node();
  PostTransform transform = ReadPostTransform(node);
  FeatureRows x = ReadFeatureRows(context.Input(0));
  auto classifier = context.Prepared<Classifier>([&] { return Classifier(node); });
  classifier->CheckFeatures(x.features);
  size_t columns = ColumnCount(*classifier);
  std::vector<double> all(static_cast<size_t>(x.rows) * columns);
  Tensor& y = context.Output(0, classifier->labels.dtype(), {x.rows});
  context.ParallelFor(x.rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<double> scores;
    for (int64_t n = begin; n < end; ++n) {
      size_t winner = classifier->Evaluate(x.Row(n), scores);
      if (columns != scores.size()) scores.insert(scores.begin(), -scores[0]);
      ApplyPostTransform(transform, scores);
      std::copy(scores.begin(), scores.end(), all.begin() + n * static_cast<int64_t>(columns));
      classifier->labels.Write(y, n, winner);
    }
  });
  WriteScores(context, 1, x.rows, static_cast<int64_t>(columns), all);
}

void InferSvmClassifier(InferContext& context) {
  Classifier classifier(context.node());
  InferClassifier(context, classifier.labels.dtype(), static_cast<int64_t>(ColumnCount(classifier)));
}

}  // namespace

FERRY_OPERATOR_IN(ml, SVMClassifier, {.compute = ComputeSvmClassifier, .infer = InferSvmClassifier});

}  // namespace ferry

#include "ops/operator.h"
#include "ops/support/ml.h"
#include "ops/support/svm.h"

namespace ferry {
namespace {

struct Regressor {
  explicit Regressor(const Node& node)
      : supports(node.Int("n_supports", 0)),
        coefficients(node.Floats("coefficients")),
        vectors(node.Floats("support_vectors")),
        rho(node.Floats("rho")),
        kernel(node, supports == 0) {
    Require(supports >= 0, "attribute 'n_supports' must not be negative, is ", supports);
    Require(!rho.empty(), "attribute 'rho' is missing");
    Require(supports == 0 || static_cast<int64_t>(coefficients.size()) == supports, "there are ", coefficients.size(),
            " coefficients for ", supports, " support vectors");
  }

  void CheckFeatures(int64_t features) const {
    int64_t expected = supports > 0 ? CheckedProduct(supports, features) : features;
    auto given = static_cast<int64_t>(supports > 0 ? vectors.size() : coefficients.size());
    Require(given == expected, supports > 0 ? "the support vectors hold " : "there are ", given, " numbers where ",
            features, " features need ", expected);
  }

  double operator()(std::span<const double> x) const {
    if (supports == 0) return kernel(x, coefficients) + rho[0];
    double sum = rho[0];
    for (size_t j = 0; j < coefficients.size(); ++j)
      sum += coefficients[j] * kernel(x, {vectors.data() + j * x.size(), x.size()});
    return sum;
  }

  int64_t supports;
  std::vector<float> coefficients, vectors, rho;
  SvmKernel kernel;
};

void ComputeSvmRegressor(OpContext& context) {
  const Node& node = context.node();
  PostTransform transform = ReadPostTransform(node);
  bool one_class = node.Int("one_class", 0) != 0;
  FeatureRows x = ReadFeatureRows(context.Input(0));
  auto regressor = context.Prepared<Regressor>([&] { return Regressor(node); });
  regressor->CheckFeatures(x.features);
  std::vector<double> scores(static_cast<size_t>(x.rows));
  context.ParallelFor(x.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      double& score = scores[static_cast<size_t>(n)];
      score = (*regressor)(x.Row(n));
      if (one_class) score = score > 0 ? 1 : -1;
      ApplyPostTransform(transform, {&score, 1});
    }
  });
  WriteScores(context, 0, x.rows, 1, scores);
}

void InferSvmRegressor(InferContext& context) { context.SetOutput(0, DType::kFloat, {InferRows(context), 1}); }

}  // namespace

FERRY_OPERATOR_IN(ml, SVMRegressor, {.compute = ComputeSvmRegressor, .infer = InferSvmRegressor});

}  // namespace ferry

#include "ops/support/linear_model.h"

#include "base/error.h"

namespace ferry {

LinearModel ReadLinearModel(const Node& node, int64_t features) {
  LinearModel model{.coefficients = node.Floats("coefficients"), .intercepts = node.Floats("intercepts")};
  auto count = static_cast<int64_t>(model.coefficients.size());
  auto targets = static_cast<int64_t>(model.intercepts.size());
  if (features > 0 && targets > 0 && count / features > targets) {
    count = targets * features;
    model.coefficients.resize(static_cast<size_t>(count));
  }
  Require(features > 0 && count > 0 && count % features == 0, "the ", count,
          " coefficients are not a whole number of rows for ", features, " features");
  model.targets = count / features;
  Require(targets == 0 || targets == model.targets, "there are ", targets, " intercepts for ", model.targets,
          " rows of coefficients");
  return model;
}

void LinearModel::Evaluate(std::span<const double> features, std::span<double> scores) const {
  const float* weight = coefficients.data();
  for (size_t target = 0; target < scores.size(); ++target) {
    double sum = intercepts.empty() ? 0.0 : intercepts[target];
    for (double feature : features) sum += feature * static_cast<double>(*weight++);
    scores[target] = sum;
  }
}

}  // namespace ferry

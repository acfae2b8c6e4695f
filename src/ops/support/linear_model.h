// Scores that are weighted sums of features: the heart of LinearClassifier and LinearRegressor.
#pragma once

#include <span>
#include <vector>

#include "graph/model.h"

namespace ferry {

struct LinearModel {
  int64_t targets = 0;
  std::vector<float> coefficients;  // [targets, features]
  std::vector<float> intercepts;    // [targets] or empty

  void Evaluate(std::span<const double> features, std::span<double> scores) const;
};

// From the attributes 'coefficients' and 'intercepts'. Where there are intercepts they say how many targets there are,
// and coefficients beyond those are left aside, as ONNX Runtime does (its first example, logreg_iris, has such).
LinearModel ReadLinearModel(const Node& node, int64_t features);

}  // namespace ferry

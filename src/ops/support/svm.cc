#include "ops/support/svm.h"

#include <cmath>

#include "base/error.h"

namespace ferry {

SvmKernel::SvmKernel(const Node& node, bool linear) {
  std::string name = node.String("kernel_type", "LINEAR");
  if (name == "POLY")
    type_ = Type::kPoly;
  else if (name == "RBF")
    type_ = Type::kRbf;
  else if (name == "SIGMOID")
    type_ = Type::kSigmoid;
  else if (name != "LINEAR")
    Fail(ErrorCode::kInvalidModel, "attribute 'kernel_type' must be LINEAR, POLY, RBF or SIGMOID, is '",
         Printable(name), "'");
  if (linear) type_ = Type::kLinear;
  std::vector<float> params = node.Floats("kernel_params");
  Require(params.empty() || params.size() == 3, "attribute 'kernel_params' must hold gamma, coef0 and degree, holds ",
          params.size(), " numbers");
  if (params.empty()) return;
  gamma_ = params[0];
  coef0_ = params[1];
  degree_ = params[2];
}

double SvmKernel::operator()(std::span<const double> x, std::span<const float> vector) const {
  double sum = 0;
  if (type_ == Type::kRbf) {
    for (size_t i = 0; i < x.size(); ++i) {
      double difference = x[i] - static_cast<double>(vector[i]);
      sum += difference * difference;
    }
    return std::exp(-gamma_ * sum);
  }
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * static_cast<double>(vector[i]);
  if (type_ == Type::kPoly) return std::pow(gamma_ * sum + coef0_, degree_);
  if (type_ == Type::kSigmoid) return std::tanh(gamma_ * sum + coef0_);
  return sum;
}

}  // namespace ferry

// Kernels of support vector machines.
#pragma once

#include <span>
#include <string>

#include "graph/model.h"

namespace ferry {

class SvmKernel {
 public:
  // From the attributes 'kernel_type' and 'kernel_params'; `linear` overrules the type.
  SvmKernel(const Node& node, bool linear);
  double operator()(std::span<const double> x, std::span<const float> vector) const;

 private:
  enum class Type : uint8_t { kLinear, kPoly, kRbf, kSigmoid } type_ = Type::kLinear;
  double gamma_ = 0, coef0_ = 0, degree_ = 0;
};

}  // namespace ferry

// What tests of convolutions over images expect of all outputs, from the sum of each.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/image.h"

namespace ferry::testing {

// sum(row, column, feature) with the residual and the activation of `conv`: none or ReLU.
template <class Sum>
std::vector<double> PlainImage(const DepthwiseConv& conv, int64_t out_height, int64_t features, const Sum& sum) {
  std::vector<double> y;
  for (int64_t row = 0; row < out_height; ++row)
    for (int64_t column = 0; column < conv.out_width; ++column)
      for (int64_t feature = 0; feature < features; ++feature) {
        double output = sum(row, column, feature);
        if (conv.residual) output += static_cast<double>(conv.residual[y.size()]);
        y.push_back(conv.activation.kind == ActivationKind::kRelu && output < 0 ? 0 : output);
      }
  return y;
}

}  // namespace ferry::testing

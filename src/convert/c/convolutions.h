// What the convolutions of several families share.
#pragma once

#include <functional>
#include <string>

#include "convert/c/step_writer.h"
#include "ops/support/nhwc.h"

namespace ferry::c {

// The plain loops: products over channels and taps inside the image, for either layout.
struct ConvLoops {
  ConvPlan plan;
  Shape x_shape, y_shape;
  bool x_last = false, y_last = false;
  std::string sum_type = "float", initial = "0";
  std::function<std::string(const std::string& x, const std::string& k)> product;
  std::function<std::string(const std::string& at)> store;
};
void WriteConvLoops(StepWriter& w, const ConvLoops& conv);

// [features, channels, taps] to [features, taps, channels].
Tensor PackedAsRows(const Tensor& w, int64_t features, int64_t channels, int64_t taps);

// NhwcConv by tiles; false where the form does not fit.
bool WriteFastNhwcConv(StepWriter& w);

}  // namespace ferry::c

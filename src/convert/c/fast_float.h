// Products of floats with constant matrices.
#pragma once

#include <string>
#include <vector>

#include "convert/c/step_writer.h"
#include "kernels/activation.h"

namespace ferry::c {

// y = activation(a · weights + bias + residual). Texts are pointers; activations beyond limits are left to the caller.
struct DenseStep {
  const float* weights;
  int64_t depth, columns, depth_stride, column_stride;
  int64_t rows = 0, a_stride = 0, y_stride = 0;
  std::string a, y, bias = {}, residual = {};
  std::string rows_text = {};  // where the number of rows of a call is known only while running
  Activation activation = {};
};
void WriteDense(StepWriter& w, const DenseStep& step);
void WriteFusedMatMul(StepWriter& w);
const std::vector<Helper>& FloatHelpers();

}  // namespace ferry::c

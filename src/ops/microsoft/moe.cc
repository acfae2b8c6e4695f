// A mixture of experts with float weights. Weights of the chosen experts are those of the softmax over all.
#include <cmath>

#include "ops/operator.h"
#include "ops/support/bit_matrix.h"
#include "ops/support/experts.h"
#include "ops/support/infer.h"
#include "ops/support/softmax_line.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

void ComputeMoE(OpContext& context) {
  MixtureOfExperts mixture(context);
  Require(!context.Has(6) && !context.Has(7), "a third layer is not supported here, nor by ONNX Runtime on a CPU");
  const Tensor &w1 = context.Input(2), &w2 = context.Input(4);
  Require(w2.rank() == 3, "fc2_experts_weights must have 3 axes, its shape is ", w2.shape());
  mixture.inner = w2.dim(2);
  Shape wanted1{mixture.experts, mixture.first_width(), mixture.hidden},
      wanted2{mixture.experts, mixture.hidden, mixture.inner};
  Require(w1.shape() == wanted1 && w2.shape() == wanted2, "the weights must have shapes ", wanted1, " and ", wanted2,
          ", have ", w1.shape(), " and ", w2.shape());
  Tensor logits = WidenToFloat(context.Input(1));
  auto layer = [&](size_t weights, size_t bias, int64_t rows, int64_t depth) {
    Tensor w = WidenToFloat(context.Input(weights)), b;
    Require(w.dtype() == DType::kFloat, "double is not supported");
    if (const Tensor* given = context.OptionalInput(bias)) {
      Require(given->shape() == (Shape{mixture.experts, rows}), "a bias must have shape [", mixture.experts, ", ", rows,
              "], has ", given->shape());
      b = WidenToFloat(*given);
    }
    return [=, &context](int64_t expert, const float* x, int64_t count, float* y) {
      auto load = [&](int64_t row, float* out) {
        std::copy_n(w.Data<float>() + (expert * rows + row) * depth, depth, out);
      };
      MultiplyByRows(context, x, count, rows, depth, load, b.defined() ? b.Data<float>() + expert * rows : nullptr, y);
    };
  };
  mixture.first = layer(2, 3, mixture.first_width(), mixture.hidden);
  mixture.second = layer(4, 5, mixture.hidden, mixture.inner);
  bool normalizes = context.node().Int("normalize_routing_weights", 0) == 1;
  std::vector<float> row(static_cast<size_t>(mixture.experts));
  for (int64_t token = 0; token < mixture.tokens; ++token) {
    SoftmaxLine(logits.Data<float>() + token * mixture.experts, row.data(), mixture.experts);
    std::vector<int64_t> largest = mixture.Largest(row.data());
    float sum = 0;
    for (int64_t expert : largest) sum += row[static_cast<size_t>(expert)];
    for (int64_t expert : largest)
      mixture.routes.push_back({expert, row[static_cast<size_t>(expert)] / (normalizes ? sum : 1)});
  }
  mixture.Run(context);
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, MoE, {.compute = ComputeMoE, .infer = InferSameAsInput});

}  // namespace ferry

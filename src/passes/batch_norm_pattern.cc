#include "passes/batch_norm_pattern.h"

#include <cmath>

#include "graph/standard.h"

namespace ferry {

std::optional<ChannelAffine> MatchBatchNorm(const GraphEditor& editor, const Node& node) {
  if (!IsStandard(node, "BatchNormalization")) return std::nullopt;
  if (node.Int("training_mode", 0) != 0 || node.inputs.size() != 5 || node.outputs.empty()) return std::nullopt;
  for (size_t i = 1; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) return std::nullopt;
  const float* values[5] = {};
  int64_t channels = -1;
  for (size_t i = 1; i < 5; ++i) {
    const Tensor* constant = editor.Constant(node.inputs[i]);
    if (!constant || constant->dtype() != DType::kFloat || constant->rank() != 1) return std::nullopt;
    if (channels >= 0 && constant->size() != channels) return std::nullopt;
    channels = constant->size();
    values[i] = constant->Data<float>();
  }
  ChannelAffine affine;
  affine.factor.reserve(static_cast<size_t>(channels));
  affine.offset.reserve(static_cast<size_t>(channels));
  double epsilon = node.Float("epsilon", 1e-5f);
  for (int64_t c = 0; c < channels; ++c) {
    double factor = static_cast<double>(values[1][c]) / std::sqrt(static_cast<double>(values[4][c]) + epsilon);
    if (!std::isfinite(factor)) return std::nullopt;  // what is infinite by itself would be NaN in a product
    affine.factor.push_back(factor);
    affine.offset.push_back(static_cast<double>(values[2][c]) - static_cast<double>(values[3][c]) * factor);
  }
  return affine;
}

}  // namespace ferry

#include "ops/support/activation.h"

#include <limits>

namespace ferry {
namespace {

using Kind = ActivationKind;
using FindConstant = FunctionRef<const Tensor*(size_t input)>;

struct Row {
  std::string_view op;
  ActivationKind kind;
  int parameters = 0;  // how many of the attributes alpha and beta the operator has
  float alpha = 0, beta = 0;
};

constexpr Row kActivations[] = {
    {"Relu", Kind::kRelu},
    {"Clip", Kind::kClip},
    {"LeakyRelu", Kind::kLeakyRelu, 1, 0.01f},
    {"Sigmoid", Kind::kSigmoid},
    {"Swish", Kind::kSilu, 1, 1.0f},
    {"HardSigmoid", Kind::kHardSigmoid, 2, 0.2f, 0.5f},
    {"HardSwish", Kind::kHardSwish},
    {"Tanh", Kind::kTanh},
    {"Gelu", Kind::kGelu},
};

std::optional<float> Limit(const Node& node, size_t input, float otherwise, FindConstant constant) {
  if (!node.HasInput(input)) return otherwise;
  const Tensor* limit = constant(input);
  if (!limit || limit->size() != 1 || limit->dtype() != DType::kFloat) return std::nullopt;
  return *limit->Data<float>();
}

std::optional<Activation> ClipOf(const Node& node, FindConstant constant) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::optional<float> low = Limit(node, 1, -kInfinity, constant), high = Limit(node, 2, kInfinity, constant);
  if (!low || !high || !(*low <= *high)) return std::nullopt;
  return Activation{Kind::kClip, *low, *high};
}

}  // namespace

std::optional<Activation> StandardActivation(const Node& node, FindConstant constant) {
  if (!CanonicalDomain(node.domain).empty()) return std::nullopt;
  for (const Row& row : kActivations) {
    if (row.op != node.op_type) continue;
    if (row.kind == Kind::kClip) return ClipOf(node, constant);
    Activation activation{row.kind};
    if (row.parameters > 0) activation.alpha = node.Float("alpha", row.alpha);
    if (row.parameters > 1) activation.beta = node.Float("beta", row.beta);
    if (row.kind == Kind::kGelu && node.String("approximate", "none") == "tanh") activation.kind = Kind::kGeluTanh;
    return activation;
  }
  return std::nullopt;
}

}  // namespace ferry

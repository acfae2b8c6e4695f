#include <cmath>

#include "onnx/downgrade/rules.h"

namespace ferry {
namespace {

// x · g, for the many activations that are their input times something.
void TimesInput(NodeRewrite& r, const std::string& factor) { ReplaceBy(r, "Mul", {r.node.inputs.at(0), factor}); }

void WriteOutGelu(NodeRewrite& r) {
  const std::string x = r.node.inputs.at(0);
  auto number = [&](double value, std::string_view what) { return r.FloatLike(static_cast<float>(value), x, what); };
  std::string inner;
  if (r.node.String("approximate", "none") == "tanh") {
    std::string cube = r.Before("Mul", {r.Before("Mul", {x, x}, "square"), x}, "cube");
    std::string bent = r.Before("Add", {x, r.Before("Mul", {cube, number(0.044715, "bend")}, "bent_part")}, "bent");
    inner = r.Before("Tanh", {r.Before("Mul", {bent, number(std::sqrt(2 / M_PI), "slope")}, "scaled")}, "tanh");
  } else {
    inner = r.Before("Erf", {r.Before("Mul", {x, number(M_SQRT1_2, "slope")}, "scaled")}, "erf");
  }
  std::string half =
      r.Before("Mul", {r.Before("Add", {inner, number(1, "one")}, "shifted"), number(0.5, "half")}, "share");
  TimesInput(r, half);
}

void WriteOutHardSwish(NodeRewrite& r) {
  TimesInput(r, r.Before("HardSigmoid", {r.node.inputs.at(0)}, "gate",
                         {Attribute("alpha", 1.0f / 6.0f), Attribute("beta", 0.5f)}));
}

void WriteOutSwish(NodeRewrite& r) {
  std::string x = r.node.inputs.at(0);
  float alpha = r.node.Float("alpha", 1);
  std::string scaled = alpha == 1 ? x : r.Before("Mul", {x, r.FloatLike(alpha, x, "alpha")}, "scaled");
  TimesInput(r, r.Before("Sigmoid", {scaled}, "gate"));
}

void WriteOutMish(NodeRewrite& r) {
  TimesInput(r, r.Before("Tanh", {r.Before("Softplus", {r.node.inputs.at(0)}, "softplus")}, "gate"));
}

void WriteOutCelu(NodeRewrite& r) {
  const std::string x = r.node.inputs.at(0);
  float alpha = r.node.Float("alpha", 1);
  std::string number = r.FloatLike(alpha, x, "alpha");
  std::string elu = r.Before("Elu", {r.Before("Div", {x, number}, "scaled")}, "elu", {Attribute("alpha", 1.0f)});
  ReplaceBy(r, "Mul", {elu, number});
}

// Not the negation of the opposite: comparisons with NaN are false.
void WriteOutOrEqual(NodeRewrite& r) {
  const char* strict = r.node.op_type == "GreaterOrEqual" ? "Greater" : "Less";
  std::string beyond = r.Before(strict, r.node.inputs, "beyond");
  std::string equal = r.Before("Equal", r.node.inputs, "equal");
  ReplaceBy(r, "Or", {beyond, equal});
}

constexpr DowngradeRule kRules[] = {
    {"Gelu", 20, WriteOutGelu},           {"HardSwish", 14, WriteOutHardSwish}, {"Swish", 24, WriteOutSwish},
    {"Mish", 18, WriteOutMish},           {"Celu", 12, WriteOutCelu},           {"GreaterOrEqual", 12, WriteOutOrEqual},
    {"LessOrEqual", 12, WriteOutOrEqual},
};

}  // namespace

std::span<const DowngradeRule> ActivationDowngrades() { return kRules; }

}  // namespace ferry

#include "ops/support/fused_parts.h"

namespace ferry {

Term ComposeActivation(Composer& c, Term x, const std::string& name, float alpha, float beta, float gamma) {
  if (name.empty()) return x;
  for (const char* plain : {"Relu", "Tanh", "Sigmoid", "HardSwish", "Softplus", "Softsign"})
    if (name == plain) return c.Call(name, {x});
  if (name == "LeakyRelu" || name == "Elu" || name == "ThresholdedRelu") return c.Call(name, {x}, {{"alpha", alpha}});
  if (name == "HardSigmoid") return c.Call(name, {x}, {{"alpha", alpha}, {"beta", beta}});
  if (name == "Selu") return c.Call(name, {x}, {{"alpha", alpha}, {"gamma", gamma}});
  DType type = x.type();
  if (name == "Clip") return c.Call(name, {x, c.Number(alpha, type), c.Number(beta, type)});
  if (name == "ScaledTanh" || name == "ParametricSoftplus") {
    Term inner = c.Call("Mul", {x, c.Number(beta, type)});
    return c.Call("Mul", {c.Call(name == "ScaledTanh" ? "Tanh" : "Softplus", {inner}), c.Number(alpha, type)});
  }
  Fail(ErrorCode::kUnsupported, "attribute 'activation' names \"", Printable(name),
       "\", which is none that can be fused");
}

Term SkipSum(Composer& c, Term bias) {
  Term first = c.Widen(c.In(0)), second = c.Widen(c.In(1));
  if (bias) {
    Term& biased = c.MadeBy(c.In(1)) == "MatMul" ? second : first;
    biased = c.Call("Add", {biased, c.Widen(bias)});
  }
  return c.Call("Add", {first, second});
}

}  // namespace ferry

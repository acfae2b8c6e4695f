// activation(Gemm(A, B, C))
#include "ops/support/compose.h"
#include "ops/support/fused_parts.h"

namespace ferry {

static void ComposeFusedGemm(Composer& c) {
  Term y = c.Call("Gemm", {c.In(0), c.In(1), c.In(2)}, c.Keep({"alpha", "beta", "transA", "transB"}));
  const Node& node = c.node();
  std::string name = node.String("activation", "");
  // What is not given is what the operator itself takes.
  float alpha = name == "Selu" ? 1.67326319f : name == "LeakyRelu" ? 0.01f : name == "HardSigmoid" ? 0.2f : 1.0f;
  float beta = name == "HardSigmoid" ? 0.5f : 1.0f;
  c.Out(0, ComposeActivation(c, y, name, node.Float("activation_alpha", alpha), node.Float("activation_beta", beta),
                             node.Float("activation_gamma", 1.05070102f)));
}

FERRY_OPERATOR_IN(microsoft, FusedGemm, (Composed<ComposeFusedGemm>()));
FERRY_COMPOSITION(microsoft, FusedGemm, ComposeFusedGemm);

}  // namespace ferry

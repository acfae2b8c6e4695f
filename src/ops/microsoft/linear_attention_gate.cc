// The two gates of LinearAttention: decay = decay_scale · softplus(a + dt_bias), beta = sigmoid(b).
#include "ops/support/compose.h"

namespace ferry {

static void ComposeLinearAttentionGate(Composer& c) {
  DType type = c.In(0).type();
  Term biased = c.Call("Add", {c.Widen(c.In(0)), c.In(1)});
  c.Out(0, c.Cast(c.Call("Mul", {c.Call("Softplus", {biased}), c.In(2)}), type));
  if (!c.Wants(1)) return;
  Require(static_cast<bool>(c.In(3)), "the output beta needs the input b");
  c.Out(1, c.Cast(c.Call("Sigmoid", {c.Widen(c.In(3))}), type));
}

FERRY_OPERATOR_IN(microsoft, LinearAttentionGate, (Composed<ComposeLinearAttentionGate>()));
FERRY_COMPOSITION(microsoft, LinearAttentionGate, ComposeLinearAttentionGate);

}  // namespace ferry

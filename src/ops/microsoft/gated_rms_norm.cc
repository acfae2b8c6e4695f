// RMSNormalization of groups as long as the scale, times SiLU of the gate.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeGatedRMSNorm(Composer& c) {
  Term x = c.In(0);
  DType type = x.type();
  Require(c.In(1).rank() == 1, "scale must have 1 axis, has ", c.In(1).rank());
  int64_t group = c.In(1).size(0);
  Require(group > 0 && x.rank() >= 1, "X and scale must not be empty");
  if (const Dim& last = x.shape().back(); last.known())
    Require(*last.value % group == 0, "the last axis of X has ", *last.value, " elements, no multiple of the scale's ",
            group);
  Term rows = c.Reshape(c.Widen(x), {-1, group});
  Term normal = c.Call("RMSNormalization", {rows, c.Widen(c.In(1))},
                       {{"axis", int64_t{-1}}, {"epsilon", c.node().Float("epsilon", 1e-5f)}});
  Term back = c.Call("Reshape", {normal, c.Call("Shape", {x})});
  c.Out(0, c.Cast(c.Call("Mul", {back, c.Call("Swish", {c.Widen(c.In(2))})}), type));
}

FERRY_OPERATOR_IN(microsoft, GatedRMSNorm, (Composed<ComposeGatedRMSNorm>()));
FERRY_COMPOSITION(microsoft, GatedRMSNorm, ComposeGatedRMSNorm);

}  // namespace ferry

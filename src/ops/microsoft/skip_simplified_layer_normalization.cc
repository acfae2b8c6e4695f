// RMSNormalization of input + skip + bias.
#include "ops/support/fused_parts.h"

namespace ferry {

static void ComposeSkipSimplified(Composer& c) {
  DType type = c.In(0).type();
  Term sum = SkipSum(c, c.In(3));
  float epsilon = c.node().Float("epsilon", 1e-12f);
  Term y = c.Call("RMSNormalization", {sum, c.Widen(c.In(2))}, {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
  c.Out(0, c.Cast(y, type));
  if (c.Wants(1)) c.Out(1, c.Call("ReduceMean", {sum, c.Ints({-1})}));
  if (c.Wants(2)) {
    Term squares = c.Call("ReduceMean", {c.Call("Mul", {sum, sum}), c.Ints({-1})});
    c.Out(2, c.Call("Reciprocal", {c.Call("Sqrt", {c.Call("Add", {squares, c.Number(epsilon, sum.type())})})}));
  }
  if (c.Wants(3)) c.Out(3, c.Cast(sum, type));
}

FERRY_OPERATOR_IN(microsoft, SkipSimplifiedLayerNormalization, (Composed<ComposeSkipSimplified>()));
FERRY_COMPOSITION(microsoft, SkipSimplifiedLayerNormalization, ComposeSkipSimplified);

}  // namespace ferry

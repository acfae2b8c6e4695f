// LayerNormalization of input + skip + bias.
#include "ops/support/fused_parts.h"

namespace ferry {

static void ComposeSkipLayerNormalization(Composer& c) {
  DType type = c.In(0).type();
  Term sum = SkipSum(c, c.In(4));
  std::vector<Term> results =
      c.CallMany("LayerNormalization", {sum, c.Widen(c.In(2)), c.Widen(c.In(3))}, c.Wants(1) || c.Wants(2) ? 3 : 1,
                 {{"axis", int64_t{-1}}, {"epsilon", c.node().Float("epsilon", 1e-12f)}});
  c.Out(0, c.Cast(results[0], type));
  for (size_t i = 1; i < results.size(); ++i) c.Out(i, results[i]);
  if (c.Wants(3)) c.Out(3, c.Cast(sum, type));
}

FERRY_OPERATOR_IN(microsoft, SkipLayerNormalization, (Composed<ComposeSkipLayerNormalization>()));
FERRY_COMPOSITION(microsoft, SkipLayerNormalization, ComposeSkipLayerNormalization);

}  // namespace ferry

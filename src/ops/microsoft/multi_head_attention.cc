#include "ops/support/compose_attention.h"

namespace ferry {

static void ComposeMultiHeadAttention(Composer& c) {
  Require(c.In(0).rank() == 3 && c.In(1) && c.In(2) && c.In(1).rank() != 5,
          "queries, keys and values packed into one input are not supported here, nor by ONNX Runtime on a CPU");
  if (c.In(8) && c.In(6)) {
    Require(c.node().Int("unidirectional", 0) == 0 || c.In(0).size(1) == 1, "one query at a time is needed");
    return ComposeDecoder(c,
                          {c.In(0), c.In(1), c.In(2), c.In(4), c.In(5), c.In(6), c.In(7), c.In(8), c.In(9), c.In(3)});
  }
  ComposedAttention attention;
  attention.heads = HeadsAttribute(c.node());
  attention.scale = c.node().Float("scale", 0);
  attention.is_causal = c.node().Int("unidirectional", 0) != 0;
  int64_t hidden = c.In(3) ? c.In(0).size(2) : 0;
  bool by_heads = c.In(1).rank() == 4;  // cross attention: keys and values as they are
  attention.q = AddBiasPart(c, c.In(0), c.In(3), 0);
  attention.k = by_heads ? c.In(1) : AddBiasPart(c, c.In(1), c.In(3), hidden);
  attention.v = by_heads ? c.In(2) : AddBiasPart(c, c.In(2), c.In(3), 2 * hidden);
  attention.past_key = c.In(6);
  attention.past_value = c.In(7);
  attention.mask = ComposeMaskAndBias(c, c.In(4), c.In(5), attention);
  AttentionTerms terms = ComposeAttention(c, attention, c.Wants(3) ? 4 : c.Wants(1) || c.Wants(2) ? 3 : 1);
  c.Out(0, terms.y);
  c.Out(1, terms.key);
  c.Out(2, terms.value);
  c.Out(3, terms.scores);
}

FERRY_OPERATOR_IN(microsoft, MultiHeadAttention, (Composed<ComposeMultiHeadAttention>()));
FERRY_COMPOSITION(microsoft, MultiHeadAttention, ComposeMultiHeadAttention);

}  // namespace ferry

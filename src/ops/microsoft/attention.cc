// Rows times one matrix give queries, keys and values; then attention with ONNX Runtime's kinds of masks.
#include "ops/support/compose_attention.h"

namespace ferry {

static void ComposeMicrosoftAttention(Composer& c) {
  Term weights = c.In(1);
  Require(c.In(0).rank() == 3 && weights.rank() == 2, "input must have 3 axes and weights 2, have ", c.In(0).rank(),
          " and ", weights.rank());
  Require(!c.In(6) && c.node().Int("past_present_share_buffer", 0) == 0,
          "a past in the memory of the present is not supported here, nor by ONNX Runtime on a CPU");
  Term rows = c.Call("MatMul", {c.Widen(c.In(0)), c.Widen(weights)});
  if (c.In(2)) rows = c.Call("Add", {rows, c.Widen(c.In(2))});
  ComposeProjected(c, {c.Cast(rows, c.In(0).type()), c.In(3), c.In(4), c.In(5)});
}

FERRY_OPERATOR_IN(microsoft, Attention, (Composed<ComposeMicrosoftAttention>()));
FERRY_COMPOSITION(microsoft, Attention, ComposeMicrosoftAttention);

}  // namespace ferry

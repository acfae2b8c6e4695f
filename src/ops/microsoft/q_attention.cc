// Attention whose projection is a product of bytes.
#include "ops/support/compose_attention.h"

namespace ferry {

static void ComposeQAttention(Composer& c) {
  Require(c.In(0).rank() == 3 && c.In(1).rank() == 2, "input must have 3 axes and weight 2, have ", c.In(0).rank(),
          " and ", c.In(1).rank());
  Require(c.node().Int("past_present_share_buffer", 0) == 0,
          "a past in the memory of the present is not supported here, nor by ONNX Runtime on a CPU");
  Term sums = c.Call("MatMulInteger", {c.In(0), c.In(1), c.In(6), c.In(7)});
  Term scale = c.Call("Mul", {c.In(3), c.In(4)});
  Term rows = c.Call("Add", {c.Call("Mul", {c.Cast(sums, DType::kFloat), scale}), c.In(2)});
  ComposeProjected(c, {rows, c.In(5), c.In(8), {}});
}

FERRY_OPERATOR_IN(microsoft, QAttention, (Composed<ComposeQAttention>()));
FERRY_COMPOSITION(microsoft, QAttention, ComposeQAttention);

}  // namespace ferry

// alpha · a_scale · b_scale · (A · B + C) of bytes, C being int32; to bytes again where y_scale is given.
#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeQGemm(Composer& c) {
  const Node& node = c.node();
  Term a = node.Int("transA", 0) ? c.Transpose(c.In(0), {1, 0}) : c.In(0);
  Term b = node.Int("transB", 0) ? c.Transpose(c.In(3), {1, 0}) : c.In(3);
  Term sums = c.Call("MatMulInteger", {a, b, ScalarOf(c, c.In(2)), ScalarOf(c, c.In(5))});
  if (c.In(6)) sums = c.Call("Add", {sums, c.In(6)});
  Term scale = c.Call("Mul", {c.In(1), c.In(4)});
  float alpha = node.Float("alpha", 1);
  if (alpha != 1) scale = c.Call("Mul", {scale, c.Number(alpha, DType::kFloat)});
  Term y = c.Call("Mul", {c.Cast(sums, DType::kFloat), scale});
  c.Out(0, c.In(7) ? Quantized(c, y, c.In(7), c.In(8), c.In(0).type()) : y);
}

FERRY_OPERATOR_IN(microsoft, QGemm, (Composed<ComposeQGemm>()));
FERRY_COMPOSITION(microsoft, QGemm, ComposeQGemm);

}  // namespace ferry

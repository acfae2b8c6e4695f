// a_scale · b_scale · (A − a_zero_point) · (B − b_zero_point) + bias
#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeMatMulIntegerToFloat(Composer& c) {
  Term sums = c.Call("MatMulInteger", {c.In(0), c.In(1), c.In(4), c.In(5)});
  Term y = c.Call("Mul", {c.Cast(sums, DType::kFloat), c.Call("Mul", {c.In(2), c.In(3)})});
  c.Out(0, c.In(6) ? c.Call("Add", {y, c.In(6)}) : y);
}

FERRY_OPERATOR_IN(microsoft, MatMulIntegerToFloat, (Composed<ComposeMatMulIntegerToFloat>()));
FERRY_COMPOSITION(microsoft, MatMulIntegerToFloat, ComposeMatMulIntegerToFloat);

}  // namespace ferry

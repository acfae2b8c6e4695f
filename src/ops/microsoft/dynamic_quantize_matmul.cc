// MatMulIntegerToFloat of an A that is quantised on the way.
#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeDynamicQuantizeMatMul(Composer& c) {
  std::vector<Term> a = c.CallMany("DynamicQuantizeLinear", {c.In(0)}, 3);
  Term sums = c.Call("MatMulInteger", {a[0], c.In(1), a[2], c.In(3)});
  Term y = c.Call("Mul", {c.Cast(sums, DType::kFloat), c.Call("Mul", {a[1], c.In(2)})});
  c.Out(0, c.In(4) ? c.Call("Add", {y, c.In(4)}) : y);
}

FERRY_OPERATOR_IN(microsoft, DynamicQuantizeMatMul, (Composed<ComposeDynamicQuantizeMatMul>()));
FERRY_COMPOSITION(microsoft, DynamicQuantizeMatMul, ComposeDynamicQuantizeMatMul);

}  // namespace ferry

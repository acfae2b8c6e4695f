#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeQLinearMul(Composer& c) {
  c.Out(0, Quantized(c, c.Call("Mul", {Real(c, 0), Real(c, 3)}), c.In(6), c.In(7), c.In(0).type()));
}

FERRY_OPERATOR_IN(microsoft, QLinearMul, (Composed<ComposeQLinearMul>()));
FERRY_COMPOSITION(microsoft, QLinearMul, ComposeQLinearMul);

}  // namespace ferry

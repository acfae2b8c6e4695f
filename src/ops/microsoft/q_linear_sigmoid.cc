#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeQLinearSigmoid(Composer& c) {
  Term y = c.Call("Sigmoid", {Real(c, 0)});
  c.Out(0, Quantized(c, y, c.In(3), c.In(4), c.In(0).type()));
}

FERRY_OPERATOR_IN(microsoft, QLinearSigmoid, (Composed<ComposeQLinearSigmoid>()));
FERRY_COMPOSITION(microsoft, QLinearSigmoid, ComposeQLinearSigmoid);

}  // namespace ferry

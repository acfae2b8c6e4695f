#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeQLinearAdd(Composer& c) {
  c.Out(0, Quantized(c, c.Call("Add", {Real(c, 0), Real(c, 3)}), c.In(6), c.In(7), c.In(0).type()));
}

FERRY_OPERATOR_IN(microsoft, QLinearAdd, (Composed<ComposeQLinearAdd>()));
FERRY_COMPOSITION(microsoft, QLinearAdd, ComposeQLinearAdd);

}  // namespace ferry

#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeQLinearWhere(Composer& c) {
  Term y = c.Call("Where", {c.In(0), Real(c, 1), Real(c, 4)});
  c.Out(0, Quantized(c, y, c.In(7), c.In(8), c.In(1).type()));
}

FERRY_OPERATOR_IN(microsoft, QLinearWhere, (Composed<ComposeQLinearWhere>()));
FERRY_COMPOSITION(microsoft, QLinearWhere, ComposeQLinearWhere);

}  // namespace ferry

#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeQLinearLeakyRelu(Composer& c) {
  Term y = c.Call("LeakyRelu", {Real(c, 0)}, c.Keep({"alpha"}));
  c.Out(0, Quantized(c, y, c.In(3), c.In(4), c.In(0).type()));
}

FERRY_OPERATOR_IN(microsoft, QLinearLeakyRelu, (Composed<ComposeQLinearLeakyRelu>()));
FERRY_COMPOSITION(microsoft, QLinearLeakyRelu, ComposeQLinearLeakyRelu);

}  // namespace ferry

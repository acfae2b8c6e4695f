#include "ops/support/compose.h"

namespace ferry {

static void ComposeDequantizeLinear(Composer& c) {
  c.Out(0, c.Call("DequantizeLinear", {c.In(0), c.In(1), c.In(2)}, c.Keep({"axis"})));
}

FERRY_OPERATOR_IN(microsoft, DequantizeLinear, (Composed<ComposeDequantizeLinear>()));
FERRY_COMPOSITION(microsoft, DequantizeLinear, ComposeDequantizeLinear);

}  // namespace ferry

#include "ops/support/compose.h"

namespace ferry {

static void ComposeQuantizeLinear(Composer& c) {
  c.Out(0, c.Call("QuantizeLinear", {c.In(0), c.In(1), c.In(2)}, c.Keep({"axis"})));
}

FERRY_OPERATOR_IN(microsoft, QuantizeLinear, (Composed<ComposeQuantizeLinear>()));
FERRY_COMPOSITION(microsoft, QuantizeLinear, ComposeQuantizeLinear);

}  // namespace ferry

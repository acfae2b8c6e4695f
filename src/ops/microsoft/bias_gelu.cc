#include "ops/support/compose.h"

namespace ferry {

static void ComposeBiasGelu(Composer& c) { c.Out(0, c.Call("Gelu", {c.Call("Add", {c.In(0), c.In(1)})})); }

FERRY_OPERATOR_IN(microsoft, BiasGelu, (Composed<ComposeBiasGelu>()));
FERRY_COMPOSITION(microsoft, BiasGelu, ComposeBiasGelu);

}  // namespace ferry

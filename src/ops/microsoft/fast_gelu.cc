// Gelu by tanh, of X + bias.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeFastGelu(Composer& c) {
  Term x = c.In(1) ? c.Call("Add", {c.In(0), c.In(1)}) : c.In(0);
  c.Out(0, c.Call("Gelu", {x}, {{"approximate", "tanh"}}));
}

FERRY_OPERATOR_IN(microsoft, FastGelu, (Composed<ComposeFastGelu>()));
FERRY_COMPOSITION(microsoft, FastGelu, ComposeFastGelu);

}  // namespace ferry

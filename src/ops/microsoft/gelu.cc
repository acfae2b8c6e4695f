#include "ops/support/compose.h"

namespace ferry {

static void ComposeGelu(Composer& c) { c.Out(0, c.Call("Gelu", {c.In(0)})); }

FERRY_OPERATOR_IN(microsoft, Gelu, (Composed<ComposeGelu>()));
FERRY_COMPOSITION(microsoft, Gelu, ComposeGelu);

}  // namespace ferry

// x · sigmoid(alpha · x): Swish.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeQuickGelu(Composer& c) {
  c.Out(0, c.Call("Swish", {c.In(0)}, {{"alpha", c.node().Float("alpha", 1.702f)}}));
}

FERRY_OPERATOR_IN(microsoft, QuickGelu, (Composed<ComposeQuickGelu>()));
FERRY_COMPOSITION(microsoft, QuickGelu, ComposeQuickGelu);

}  // namespace ferry

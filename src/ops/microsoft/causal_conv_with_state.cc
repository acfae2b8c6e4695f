#include "ops/support/compose.h"

namespace ferry {

static void ComposeCausalConv(Composer& c) {
  Require(c.node().Int("ndim", 1) == 1 && c.node().Int("state_window", 0) == 0,
          "only ndim 1 and state_window 0 are supported");
  std::vector<Term> results =
      c.CallMany("CausalConvWithState", {c.In(0), c.In(1), c.In(2), c.In(3)}, 2, c.Keep({"activation"}));
  c.Out(0, results[0]);
  c.Out(1, results[1]);
}

FERRY_OPERATOR_IN(microsoft, CausalConvWithState, (Composed<ComposeCausalConv>()));
FERRY_COMPOSITION(microsoft, CausalConvWithState, ComposeCausalConv);

}  // namespace ferry

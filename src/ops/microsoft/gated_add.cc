// X + Y · gate, one gate for each row.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeGatedAdd(Composer& c) {
  Term x = c.In(0), gate = c.In(2);
  Require(x.rank() >= 1 && gate.rank() == x.rank(), "the gate must have as many axes as X: ", gate.rank(), " and ",
          x.rank());
  if (const Dim& last = gate.shape().back(); last.known())
    Require(*last.value == 1, "the gate's last axis must be 1 long, is ", *last.value);
  c.Out(0, c.Call("Add", {x, c.Call("Mul", {c.In(1), gate})}));
}

FERRY_OPERATOR_IN(microsoft, GatedAdd, (Composed<ComposeGatedAdd>()));
FERRY_COMPOSITION(microsoft, GatedAdd, ComposeGatedAdd);

}  // namespace ferry

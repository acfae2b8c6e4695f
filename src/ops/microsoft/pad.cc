// Pad whose pads may be a row of a matrix and whose value a vector of one element.
#include "ops/support/compose.h"

namespace ferry {

static void ComposePad(Composer& c) {
  Term pads = c.In(1).rank() == 1 ? c.In(1) : c.Reshape(c.In(1), {-1});
  Term value = c.In(2) && c.In(2).rank() != 0 ? c.Reshape(c.In(2), {}) : c.In(2);
  c.Out(0, c.Call("Pad", {c.In(0), pads, value}, c.Keep({"mode"})));
}

FERRY_OPERATOR_IN(microsoft, Pad, (Composed<ComposePad>()));
FERRY_COMPOSITION(microsoft, Pad, ComposePad);

}  // namespace ferry

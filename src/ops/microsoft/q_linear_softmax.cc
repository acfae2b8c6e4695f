// Softmax of bytes. Attribute opset says which Softmax is meant: before 13 it went over all axes from `axis` on.
#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeQLinearSoftmax(Composer& c) {
  Term x = Real(c, 0), y;
  int64_t axis = c.node().Int("axis", -1);
  if (c.node().Int("opset", 0) >= 13) {
    y = c.Call("Softmax", {x}, {{"axis", axis}});
  } else {
    Term rows = c.Call("Flatten", {x}, {{"axis", axis}});
    y = c.Call("Reshape", {c.Call("Softmax", {rows}, {{"axis", int64_t{-1}}}), c.Call("Shape", {x})});
  }
  c.Out(0, Quantized(c, y, c.In(3), c.In(4), c.In(0).type()));
}

FERRY_OPERATOR_IN(microsoft, QLinearSoftmax, (Composed<ComposeQLinearSoftmax>()));
FERRY_COMPOSITION(microsoft, QLinearSoftmax, ComposeQLinearSoftmax);

}  // namespace ferry

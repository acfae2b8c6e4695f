// ONNX Runtime's example of a contributed operator: the input itself.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeSampleOp(Composer& c) { c.Out(0, c.Call("Identity", {c.In(0)})); }

FERRY_OPERATOR_IN(microsoft, SampleOp, (Composed<ComposeSampleOp>()));
FERRY_COMPOSITION(microsoft, SampleOp, ComposeSampleOp);

}  // namespace ferry

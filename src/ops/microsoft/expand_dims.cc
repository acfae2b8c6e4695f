// Unsqueeze with one axis of any integer type.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeExpandDims(Composer& c) {
  Term axis = c.Cast(c.In(1), DType::kInt64);
  c.Out(0, c.Call("Unsqueeze", {c.In(0), c.Reshape(axis, {1})}));
}

FERRY_OPERATOR_IN(microsoft, ExpandDims, (Composed<ComposeExpandDims>()));
FERRY_COMPOSITION(microsoft, ExpandDims, ComposeExpandDims);

}  // namespace ferry

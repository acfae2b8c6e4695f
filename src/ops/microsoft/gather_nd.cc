#include "ops/support/compose.h"

namespace ferry {

static void ComposeGatherND(Composer& c) { c.Out(0, c.Call("GatherND", {c.In(0), c.Cast(c.In(1), DType::kInt64)})); }

FERRY_OPERATOR_IN(microsoft, GatherND, (Composed<ComposeGatherND>()));
FERRY_COMPOSITION(microsoft, GatherND, ComposeGatherND);

}  // namespace ferry

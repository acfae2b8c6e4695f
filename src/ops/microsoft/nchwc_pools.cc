// The standard's pools: channels never meet, so that it does not matter how they lie.
#include "ops/support/nchwc.h"

namespace ferry {

static Settings PoolSettings() {
  return Composer::Keep({"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"});
}
static void ComposeNchwcMaxPool(Composer& c) { c.Out(0, c.Call("MaxPool", {c.In(0)}, PoolSettings())); }
static void ComposeNchwcAveragePool(Composer& c) { c.Out(0, c.Call("AveragePool", {c.In(0)}, PoolSettings())); }
static void ComposeNchwcGlobalMaxPool(Composer& c) { c.Out(0, c.Call("GlobalMaxPool", {c.In(0)})); }
static void ComposeNchwcGlobalAveragePool(Composer& c) { c.Out(0, c.Call("GlobalAveragePool", {c.In(0)})); }

FERRY_OPERATOR_IN(nchwc, MaxPool, (Composed<ComposeNchwcMaxPool>()));
FERRY_COMPOSITION(nchwc, MaxPool, ComposeNchwcMaxPool);
FERRY_OPERATOR_IN(nchwc, AveragePool, (Composed<ComposeNchwcAveragePool>()));
FERRY_COMPOSITION(nchwc, AveragePool, ComposeNchwcAveragePool);
FERRY_OPERATOR_IN(nchwc, GlobalMaxPool, (Composed<ComposeNchwcGlobalMaxPool>()));
FERRY_COMPOSITION(nchwc, GlobalMaxPool, ComposeNchwcGlobalMaxPool);
FERRY_OPERATOR_IN(nchwc, GlobalAveragePool, (Composed<ComposeNchwcGlobalAveragePool>()));
FERRY_COMPOSITION(nchwc, GlobalAveragePool, ComposeNchwcGlobalAveragePool);

}  // namespace ferry

#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeQLinearGlobalAveragePool(Composer& c) {
  bool turns = c.node().Int("channels_last", 0) != 0;
  Term x = turns ? ChannelsFirst(c, c.In(0)) : c.In(0);
  Term y = c.Call("GlobalAveragePool", {Real(c, x, c.In(1), c.In(2))});
  y = Quantized(c, y, c.In(3), c.In(4), x.type());
  c.Out(0, turns ? ChannelsLast(c, y) : y);
}

FERRY_OPERATOR_IN(microsoft, QLinearGlobalAveragePool, (Composed<ComposeQLinearGlobalAveragePool>()));
FERRY_COMPOSITION(microsoft, QLinearGlobalAveragePool, ComposeQLinearGlobalAveragePool);

}  // namespace ferry

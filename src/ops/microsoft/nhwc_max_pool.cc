// MaxPool over images with their channels last.
#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeNhwcMaxPool(Composer& c) {
  Term y = c.Call("MaxPool", {ChannelsFirst(c, c.In(0))},
                  c.Keep({"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"}));
  c.Out(0, ChannelsLast(c, y));
}

FERRY_OPERATOR_IN(microsoft, NhwcMaxPool, (Composed<ComposeNhwcMaxPool>()));
FERRY_COMPOSITION(microsoft, NhwcMaxPool, ComposeNhwcMaxPool);

}  // namespace ferry

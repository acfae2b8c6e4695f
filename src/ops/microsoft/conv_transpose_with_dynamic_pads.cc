// ConvTranspose whose pads are an input.
#include "ops/support/compose.h"

namespace ferry {

static void ComposeConvTranspose(Composer& c) {
  Settings attributes = c.Keep({"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"});
  std::vector<int64_t> pads;
  if (c.In(2)) {
    pads = ToInt64Vector(c.In(2).value());
    attributes.emplace_back("pads", pads);
  }
  c.Out(0, c.Call("ConvTranspose", {c.In(0), c.In(1), c.In(3)}, attributes));
}

FERRY_OPERATOR_IN(microsoft, ConvTransposeWithDynamicPads, (Composed<ComposeConvTranspose>()));
FERRY_COMPOSITION(microsoft, ConvTransposeWithDynamicPads, ComposeConvTranspose);

}  // namespace ferry

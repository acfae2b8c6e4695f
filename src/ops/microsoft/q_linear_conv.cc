// The standard's QLinearConv, also over images with their channels last.
#include "ops/support/compose_quantized.h"

namespace ferry {

static void ComposeMicrosoftQLinearConv(Composer& c) {
  bool turns = c.node().Int("channels_last", 0) != 0;
  std::vector<Term> inputs;
  for (size_t i = 0; i < c.input_count(); ++i) inputs.push_back(c.In(i));
  if (turns) inputs[0] = ChannelsFirst(c, inputs[0]);
  Term y = c.Call("QLinearConv", inputs, c.Keep({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  c.Out(0, turns ? ChannelsLast(c, y) : y);
}

FERRY_OPERATOR_IN(microsoft, QLinearConv, (Composed<ComposeMicrosoftQLinearConv>()));
FERRY_COMPOSITION(microsoft, QLinearConv, ComposeMicrosoftQLinearConv);

}  // namespace ferry

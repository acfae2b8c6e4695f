// activation(Conv(X, W, B) + Z)
#include "ops/support/compose.h"
#include "ops/support/fused_parts.h"

namespace ferry {

static void ComposeFusedConv(Composer& c) {
  Term y = c.Call("Conv", {c.In(0), c.In(1), c.In(2)},
                  c.Keep({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  if (c.In(3)) y = c.Call("Add", {y, c.In(3)});
  std::string name = c.node().String("activation", "");
  std::vector<float> numbers = c.node().Floats("activation_params");
  size_t needed = name == "LeakyRelu" ? 1 : name == "Clip" || name == "HardSigmoid" ? 2 : 0;
  Require(numbers.size() == needed || needed == 0, "attribute 'activation_params' must have ", needed, " numbers for ",
          Printable(name), ", has ", numbers.size());
  numbers.resize(2);
  c.Out(0, ComposeActivation(c, y, name, numbers[0], numbers[1], 0));
}

FERRY_OPERATOR_IN(microsoft, FusedConv, (Composed<ComposeFusedConv>()));
FERRY_COMPOSITION(microsoft, FusedConv, ComposeFusedConv);

}  // namespace ferry

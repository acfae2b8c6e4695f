// activation(Conv(X, W, B) + Sum) with filters that lie in blocks of channels.
#include "ops/support/fused_parts.h"
#include "ops/support/nchwc.h"

namespace ferry {

static void ComposeWith(Composer& c, Term filter) {
  Term y = c.Call("Conv", {c.In(0), filter, c.In(2)},
                  c.Keep({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  if (c.In(3)) y = c.Call("Add", {y, c.In(3)});
  std::vector<float> numbers = c.node().Floats("activation_params");
  Require(numbers.size() <= 2, "attribute 'activation_params' must have at most 2 numbers, has ", numbers.size());
  numbers.resize(2);
  c.Out(0, ComposeActivation(c, y, c.node().String("activation", ""), numbers[0], numbers[1], 0));
}

static void ComposeNchwcConv(Composer& c) {
  const Tensor& filter = c.In(1).value();
  Require(filter.rank() == 4, "a filter must have 4 axes, its shape is ", filter.shape());
  const int64_t block = NchwcBlock(), group = c.node().Int("group", 1);
  // Few input channels, or one for each output, are no blocks.
  const bool in_blocks = group > 1 ? filter.dim(1) != 1 : filter.dim(1) >= block;
  ComposeWith(c, c.Constant(NchwcFilter(filter, block, in_blocks)));
}

// However the filter lies, its shape is the same.
static void ComposeShape(Composer& c) { ComposeWith(c, c.In(1)); }

FERRY_OPERATOR_IN(nchwc, Conv,
                  {.compute = [](OpContext& context) { RunComposed(ComposeNchwcConv, context); },
                   .infer = [](InferContext& context) { InferComposed(ComposeShape, context); }});
FERRY_COMPOSITION(nchwc, Conv, ComposeNchwcConv);

}  // namespace ferry

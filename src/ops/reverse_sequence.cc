#include "ops/operator.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"

namespace ferry {

static void ComputeReverseSequence(OpContext& context) {
  const Tensor& x = context.Input(0);
  const Tensor& lengths = context.Input(1);
  int64_t time_axis = context.node().Int("time_axis", 0), batch_axis = context.node().Int("batch_axis", 1);
  bool axes_fit = (time_axis == 0 && batch_axis == 1) || (time_axis == 1 && batch_axis == 0);
  Require(axes_fit, "time_axis and batch_axis must be 0 and 1 or 1 and 0, are ", time_axis, " and ", batch_axis);
  Require(x.rank() >= 2, "the input must have at least two axes, has shape ", x.shape());
  int64_t steps = x.dim(static_cast<size_t>(time_axis)), batch = x.dim(static_cast<size_t>(batch_axis));
  Require(lengths.shape() == Shape{batch}, "sequence_lens have shape ", lengths.shape(), ", expected [", batch, "]");
  std::vector<int64_t> counts = ToInt64Vector(lengths);
  int64_t inner = x.shape().CountBetween(2, x.rank());
  int64_t time_stride = time_axis == 0 ? batch * inner : inner, batch_stride = time_axis == 0 ? inner : steps * inner;
  Tensor from = Movable(x);
  WriteMoved(context, 0, x.dtype(), x.shape(), [&](Tensor& out) {
    for (int64_t b = 0; b < batch; ++b) {
      int64_t count = counts[static_cast<size_t>(b)], base = b * batch_stride;
      Require(count >= 0 && count <= steps, "sequence length ", count, " of sample ", b, " is not within 0 and ",
              steps);
      if (count > 0)
        CopyStrided(context, from, base + (count - 1) * time_stride, out, base,
                    {{count, -time_stride, time_stride}, {inner, 1, 1}});
      CopyStrided(context, from, base + count * time_stride, out, base + count * time_stride,
                  {{steps - count, time_stride, time_stride}, {inner, 1, 1}});
    }
  });
}

FERRY_OPERATOR(ReverseSequence, {.compute = ComputeReverseSequence, .infer = InferSameAsInput, .moves_elements = true});

}  // namespace ferry

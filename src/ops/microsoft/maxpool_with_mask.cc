// MaxPool that reads each row of its window up to the first element whose mask is 0. As ONNX Runtime has it, the very
// first element of a plane is never masked (but in planes of one axis), and plane p reads the mask from element
// p · size modulo the number of the mask's planes on.
#include <algorithm>
#include <limits>

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/pool.h"

namespace ferry {
namespace {

struct Masked {
  const float* x;
  const int32_t* mask;
};

// Goes through the window's rows along the last axis, outer axes first.
void Visit(const PoolPlan& plan, const std::vector<int64_t>& out, size_t axis, int64_t offset, const Masked& plane,
           float& largest) {
  const WindowAxis& window = plan.axes[axis];
  const int64_t start = window.Position(out[axis], 0);
  int64_t tap = start >= 0 ? 0 : (window.dilation - 1 - start) / window.dilation;
  for (; tap < window.kernel; ++tap) {
    int64_t position = window.Position(out[axis], tap);
    if (position >= window.input) return;
    int64_t at = offset * window.input + position;
    if (axis + 1 < plan.axes.size()) {
      Visit(plan, out, axis + 1, at, plane, largest);
      continue;
    }
    bool can_mask = at > 0 || plan.axes.size() == 1;
    if (can_mask && plane.mask[at] == 0) return;
    if (plane.x[at] > largest) largest = plane.x[at];
  }
}

void ComputeMaxpoolWithMask(OpContext& context) {
  const Tensor &x = context.Input(0), &mask = context.Input(1);
  PoolPlan plan(context.node(), x.shape());
  Require(x.dtype() == DType::kFloat && mask.dtype() == DType::kInt32, "X must be float and M int32");
  bool fits = mask.rank() == x.rank() && mask.dim(0) > 0 && mask.dim(1) > 0;
  for (size_t i = 2; i < x.rank() && fits; ++i) fits = mask.dim(i) == x.dim(i);
  Require(fits, "the mask ", mask.shape(), " does not fit the input ", x.shape());
  Tensor& y = context.Output(0, DType::kFloat, plan.output);
  int64_t masks = mask.dim(0) * mask.dim(1);
  context.ParallelFor(plan.planes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      Masked plane{x.Data<float>() + p * plan.counts.input, mask.Data<int32_t>() + p * plan.counts.input % masks};
      std::vector<int64_t> out(plan.axes.size());
      WorkPoll poll;
      for (int64_t i = 0; i < plan.counts.output; ++i) {
        poll(std::min(plan.counts.taps, plan.counts.input));
        int64_t rest = i;
        for (size_t a = plan.axes.size(); a-- > 0; rest /= plan.axes[a].output) out[a] = rest % plan.axes[a].output;
        float largest = std::numeric_limits<float>::lowest();
        Visit(plan, out, 0, 0, plane, largest);
        y.MutableData<float>()[p * plan.counts.output + i] = largest;
      }
    }
  });
}

void InferMaxpoolWithMask(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  if (!x) return context.SetOutput(0, context.InputDType(0));
  context.SetOutput(0, context.InputDType(0), InferPooled(context, *x));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, MaxpoolWithMask, {.compute = ComputeMaxpoolWithMask, .infer = InferMaxpoolWithMask});

}  // namespace ferry

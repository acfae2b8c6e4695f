#include <algorithm>

#include "ops/operator.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"
#include "ops/support/scalar.h"

namespace ferry {

static void ComputeTrilu(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() >= 2, "the input must be at least a matrix, has shape ", x.shape());
  bool upper = context.node().Int("upper", 1) != 0;
  int64_t rows = x.dim(x.rank() - 2), cols = x.dim(x.rank() - 1);
  int64_t k = context.Has(1) ? ScalarInt(context.Input(1), "k") : 0;
  k = std::clamp(k, -rows, cols);
  Tensor from = Movable(x), zero = MovableZero(x.dtype());
  WriteMoved(context, 0, x.dtype(), x.shape(), [&](Tensor& out) {
    if (out.size() == 0) return;
    context.ParallelFor(out.size() / cols, std::max<int64_t>(1, (1 << 14) / cols), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        // Columns below `diagonal` are the lower part, the others the upper part.
        int64_t diagonal = std::clamp<int64_t>(row % rows + k + (upper ? 0 : 1), 0, cols), place = row * cols;
        int64_t kept = upper ? diagonal : 0, kept_count = upper ? cols - diagonal : diagonal;
        int64_t cleared = upper ? 0 : diagonal;
        if (from.dtype() == DType::kString || from.raw() != out.raw())
          CopyRun(from, place + kept, out, place + kept, kept_count);
        for (int64_t c = cleared; c < cleared + cols - kept_count; ++c) CopyRun(zero, 0, out, place + c, 1);
      }
    });
  });
}

FERRY_OPERATOR(Trilu, {.compute = ComputeTrilu, .infer = InferSameAsInput, .in_place = kInput0});

}  // namespace ferry

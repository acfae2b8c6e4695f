// The operands of FusedAttention as matrices: sizes and where elements lie.
#pragma once

#include <optional>

#include "graph/model.h"
#include "ops/support/fused.h"
#include "providers/cuda/flash.h"
#include "tensor/shape.h"

namespace ferry::cuda {

// An operand as [batch, heads, rows, columns], with where elements lie.
struct Operand {
  int64_t batch = 1, heads = 1, rows = 0, columns = 0;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  bool transposed = false;  // columns before rows

  int64_t matrices() const { return batch * heads; }
  // One product takes all heads, and all images where they follow at the same distance.
  bool IsUniform() const { return batch == 1 || batch_stride == heads * head_stride; }
};
std::optional<Operand> OperandOf(const Shape& shape, AttentionForm form);

struct Problem {
  Operand q, k, v, out;
  Shape shape;  // of the result
  int64_t sharing = 1;
  int64_t mask_strides[4] = {0, 0, 0, 0};
};
// Nothing where sizes do not fit, or fit only by broadcasting.
std::optional<Problem> ProblemOf(const Node& node, const Shape& q_shape, const Shape& k_shape, const Shape& v_shape,
                                 const Shape* mask);

// The whole as one kernel. `mask`: its type, undefined where there is none.
FlashProblem AsFlash(const Node& node, const Problem& problem, DType type, DType mask);
bool RunsAsFlash(const FlashProblem& flash, int compute_major, bool tf32);

}  // namespace ferry::cuda

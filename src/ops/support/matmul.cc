#include "ops/support/matmul.h"

#include <algorithm>

#include "base/error.h"
#include "base/work_poll.h"
#include "ops/support/broadcast.h"
#include "ops/support/infer.h"

namespace ferry {
namespace {

Shape BatchOf(const Shape& shape) { return shape.rank() > 2 ? Shape(shape.dims().first(shape.rank() - 2)) : Shape{}; }

}  // namespace

MatMulPlan PlanMatMul(const Shape& a, const Shape& b) {
  Require(a.rank() >= 1 && b.rank() >= 1, "needs vectors or matrices, got ", a, " and ", b);
  MatMulPlan plan;
  if (a.rank() > 1) plan.m = a[a.rank() - 2];
  if (b.rank() > 1) plan.n = b[b.rank() - 1];
  plan.k = a.back();
  int64_t b_depth = b.rank() > 1 ? b[b.rank() - 2] : b[0];
  Require(plan.k == b_depth, "inner sizes differ: ", a, " × ", b);

  Shape a_batch = BatchOf(a), b_batch = BatchOf(b);
  Shape batch = BroadcastShapes(a_batch, b_batch);
  plan.output = batch;
  if (a.rank() > 1) plan.output.push_back(plan.m);
  if (b.rank() > 1) plan.output.push_back(plan.n);
  plan.output.ElementCount();

  int64_t b_count = b_batch.ElementCount();
  if (b_count == 1 && a_batch.rank() >= b_batch.rank()) {
    // One matrix for the whole stack: the stack is one tall matrix.
    plan.m = CheckedProduct(plan.m, a_batch.ElementCount());
    plan.batches.push_back({});
    return plan;
  }
  int64_t a_step = plan.m * plan.k, b_step = plan.k * plan.n;
  if (batch.ElementCount() == 0) return plan;
  WorkPoll poll;
  ForEachRun<2>(batch, {&a_batch, &b_batch}, [&](int64_t, auto offsets, int64_t count, auto strides) {
    for (int64_t i = 0; i < count; ++i, poll(8))
      plan.batches.push_back({(offsets[0] + i * strides[0]) * a_step, (offsets[1] + i * strides[1]) * b_step});
  });
  return plan;
}

void InferMatMul(InferContext& context, size_t a_input, size_t b_input, DType dtype) {
  const SymbolicShape* a = context.InputShape(a_input);
  const SymbolicShape* b = context.InputShape(b_input);
  if (!a || !b) return context.SetOutput(0, dtype);
  Require(!a->empty() && !b->empty(), "needs vectors or matrices, got ", *a, " and ", *b);
  const Dim& a_depth = a->back();
  const Dim& b_depth = b->size() > 1 ? (*b)[b->size() - 2] : (*b)[0];
  Require(!a_depth.known() || !b_depth.known() || SameDim(a_depth, b_depth), "inner sizes differ: ", *a, " × ", *b);
  auto batch_of = [](const SymbolicShape& shape) {
    return shape.size() > 2 ? SymbolicShape(shape.begin(), shape.end() - 2) : SymbolicShape{};
  };
  SymbolicShape out = BroadcastSymbolic(batch_of(*a), batch_of(*b));
  if (a->size() > 1) out.push_back((*a)[a->size() - 2]);
  if (b->size() > 1) out.push_back(b->back());
  context.SetOutput(0, dtype, std::move(out));
}

}  // namespace ferry

#include "providers/cuda/attention_problem.h"

#include <algorithm>

namespace ferry::cuda {
namespace {

struct Forms {
  AttentionForm q, k, v, out;
  int64_t sharing;
};

Forms FormsOf(const Node& node) {
  return {AttentionFormOf(node, "q_form"), AttentionFormOf(node, "k_form"), AttentionFormOf(node, "v_form"),
          AttentionFormOf(node, "out_form"), node.Int("heads_sharing", 1)};
}

}  // namespace

std::optional<Operand> OperandOf(const Shape& shape, AttentionForm form) {
  const size_t rank = shape.rank();
  if (rank < 2 || rank > 4 || (form == AttentionForm::kHeadsInside && rank != 4)) return std::nullopt;
  Operand operand;
  if (form == AttentionForm::kHeadsInside) {
    operand = {shape[0], shape[2], shape[1], shape[3]};
    operand.head_stride = operand.columns;
    operand.row_stride = operand.heads * operand.columns;
    operand.batch_stride = operand.rows * operand.row_stride;
    return operand;
  }
  if (rank == 4) operand.batch = shape[0];
  if (rank >= 3) operand.heads = shape[rank - 3];
  operand.rows = shape[rank - 2], operand.columns = shape[rank - 1];
  operand.row_stride = operand.columns;
  operand.head_stride = operand.rows * operand.columns;
  operand.batch_stride = operand.heads * operand.head_stride;
  if (form == AttentionForm::kTransposed) {
    std::swap(operand.rows, operand.columns);
    operand.transposed = true;
  }
  return operand;
}

std::optional<Problem> ProblemOf(const Node& node, const Shape& q_shape, const Shape& k_shape, const Shape& v_shape,
                                 const Shape* mask) {
  const Forms forms = FormsOf(node);
  std::optional<Operand> q = OperandOf(q_shape, forms.q), k = OperandOf(k_shape, forms.k),
                         v = OperandOf(v_shape, forms.v);
  if (!q || !k || !v || q->transposed || v->transposed || forms.out == AttentionForm::kTransposed || forms.sharing < 1)
    return std::nullopt;
  if (q_shape.rank() != k_shape.rank() || q_shape.rank() != v_shape.rank()) return std::nullopt;
  Problem problem{*q, *k, *v};
  problem.sharing = forms.sharing;
  if (q->batch != k->batch || q->batch != v->batch || k->heads != v->heads || q->heads != k->heads * forms.sharing ||
      q->columns != k->columns || k->rows != v->rows || k->rows < 1 || q->columns < 1)
    return std::nullopt;
  Shape plain(q_shape.dims().first(q_shape.rank() - 2));
  if (forms.q == AttentionForm::kHeadsInside) plain = {q->batch, q->heads};
  plain.push_back(q->rows);
  plain.push_back(v->columns);
  problem.shape = plain;
  if (forms.out == AttentionForm::kHeadsInside) {
    if (plain.rank() != 4) return std::nullopt;
    problem.shape = {q->batch, q->rows, q->heads, v->columns};
  }
  problem.out = *OperandOf(problem.shape, forms.out);
  if (!mask) return problem;
  const int64_t sizes[] = {q->batch, q->heads, q->rows, k->rows};
  if (mask->rank() > plain.rank()) return std::nullopt;
  const std::vector<int64_t> strides = mask->Strides();
  for (size_t i = 0; i < mask->rank(); ++i) {
    const size_t axis = 4 - mask->rank() + i;
    if ((*mask)[i] != 1 && (*mask)[i] != sizes[axis]) return std::nullopt;
    if ((*mask)[i] != 1) problem.mask_strides[axis] = strides[i];
  }
  return problem;
}

FlashProblem AsFlash(const Node& node, const Problem& problem, DType type, DType mask) {
  FlashProblem flash;
  flash.dtype = type;
  flash.batch = problem.q.batch, flash.heads = problem.q.heads, flash.sharing = problem.sharing;
  flash.queries = problem.q.rows, flash.keys = problem.k.rows;
  flash.depth = problem.q.columns, flash.values = problem.v.columns;
  auto fill = [](int64_t* to, const Operand& from) {
    to[0] = from.batch_stride, to[1] = from.head_stride, to[2] = from.row_stride;
  };
  fill(flash.q, problem.q);
  fill(flash.k, problem.k);
  fill(flash.v, problem.v);
  fill(flash.out, problem.out);
  flash.k[3] = 1;
  if (problem.k.transposed) std::swap(flash.k[2], flash.k[3]);
  flash.has_mask = mask != DType::kUndefined;
  flash.mask_type = mask;
  std::copy(problem.mask_strides, problem.mask_strides + 4, flash.mask);
  flash.scale = node.Float("scale", 1);
  flash.nan_to_zero = node.Int("nan_to_zero", 0) != 0;
  return flash;
}

// Tensor cores round operands, which float32 must allow.
bool RunsAsFlash(const FlashProblem& flash, int compute_major, bool tf32) {
  return (tf32 || flash.dtype != DType::kFloat) && CanFlash(flash, compute_major);
}

}  // namespace ferry::cuda

// FusedAttention as one kernel where tensor cores may round, else as two products and a softmax between them, with
// scores in memory: [batch, heads, queries, keys].
#include "ops/support/fused.h"
#include "providers/cuda/flash.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/operators.h"
#include "providers/cuda/product.h"

namespace ferry::cuda {
namespace {

// An operand as [batch, heads, rows, columns], with where elements lie.
struct Operand {
  int64_t batch = 1, heads = 1, rows = 0, columns = 0;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  bool transposed = false;  // columns before rows

  int64_t matrices() const { return batch * heads; }
  // One product takes all heads, and all images where they follow at the same distance.
  bool IsUniform() const { return batch == 1 || batch_stride == heads * head_stride; }
};

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

struct Forms {
  AttentionForm q, k, v, out;
  int64_t sharing;
};

Forms FormsOf(const Node& node) {
  return {AttentionFormOf(node, "q_form"), AttentionFormOf(node, "k_form"), AttentionFormOf(node, "v_form"),
          AttentionFormOf(node, "out_form"), node.Int("heads_sharing", 1)};
}

struct Problem {
  Operand q, k, v, out;
  Shape shape;  // of the result
  int64_t sharing = 1;
  int64_t mask_strides[4] = {0, 0, 0, 0};
};

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

constexpr size_t kBytes = sizeof(float);

// The same elements as [batch, heads, rows, columns] without gaps, where one product cannot reach them otherwise.
Tensor Gathered(const Device& device, Operand& operand, const std::byte* from) {
  Tensor plain(DType::kFloat, {operand.batch, operand.heads, operand.rows, operand.columns}, device.memory());
  CopyWalk(device,
           {plain.shape().ToVector(),
            {operand.batch_stride, operand.head_stride, operand.row_stride, 1},
            plain.shape().Strides()},
           kBytes, from, plain.address());
  operand.row_stride = operand.columns;
  operand.head_stride = operand.rows * operand.columns;
  operand.batch_stride = operand.heads * operand.head_stride;
  return plain;
}

// Where heads are shared, the queries of those that share one follow each other as its rows.
bool NeedsGathering(const Operand& operand, int64_t sharing) {
  return !operand.IsUniform() || (sharing > 1 && operand.head_stride != operand.rows * operand.row_stride);
}

// The whole as one kernel, where tensor cores may be used.
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

bool RunsAsFlash(const FlashProblem& flash, const Device* device, bool tf32) {
  return (tf32 || flash.dtype != DType::kFloat) && CanFlash(flash, device ? device->facts().compute_major : 9);
}

void Attend(const Device& device, OpContext& context, bool tf32) {
  const Tensor *q = &context.Input(0), *k = &context.Input(1), *v = &context.Input(2), *mask = context.OptionalInput(3);
  std::optional<Problem> found =
      ProblemOf(context.node(), q->shape(), k->shape(), v->shape(), mask ? &mask->shape() : nullptr);
  Require(found.has_value(), "the sizes of q ", q->shape(), ", k ", k->shape(), " and v ", v->shape(), " do not fit");
  Problem& problem = *found;
  Tensor& out = context.Output(0, q->dtype(), problem.shape);
  if (out.size() == 0) return;
  const FlashProblem flash = AsFlash(context.node(), problem, q->dtype(), mask ? mask->dtype() : DType::kUndefined);
  if (RunsAsFlash(flash, &device, tf32))
    return Flash(device, flash,
                 {q->address(), k->address(), v->address(), mask ? mask->address() : nullptr, out.address()});
  Tensor plain_q, plain_k, plain_v, plain_out;
  if (NeedsGathering(problem.q, problem.sharing)) q = &(plain_q = Gathered(device, problem.q, q->address()));
  if (NeedsGathering(problem.k, 1)) k = &(plain_k = Gathered(device, problem.k, k->address()));
  if (NeedsGathering(problem.v, 1)) v = &(plain_v = Gathered(device, problem.v, v->address()));
  const Operand target = problem.out;
  const bool scatters = NeedsGathering(target, problem.sharing);
  if (scatters) {
    plain_out = Tensor(DType::kFloat, {target.batch, target.heads, target.rows, target.columns}, device.memory());
    problem.out = *OperandOf(plain_out.shape(), AttentionForm::kPlain);
  }
  const int64_t keys = problem.k.rows, queries = problem.q.rows * problem.sharing;
  Tensor scores(DType::kFloat, {problem.q.matrices(), problem.q.rows, keys}, device.memory());
  ProductShape first;
  first.tf32 = tf32;
  first.rows = queries, first.columns = keys, first.depth = problem.q.columns, first.batch = problem.k.matrices();
  first.b_transposed = !problem.k.transposed;
  first.a_pitch = problem.q.row_stride, first.b_pitch = problem.k.row_stride, first.d_pitch = keys;
  first.a_stride = problem.q.head_stride * problem.sharing, first.b_stride = problem.k.head_stride;
  first.d_stride = queries * keys;
  Multiply(device, first, {q->address(), k->address(), nullptr, nullptr, scores.address()});
  MaskedSoftmax softmax;
  softmax.rows = problem.q.matrices() * problem.q.rows;
  softmax.count = keys;
  softmax.scale = context.node().Float("scale", 1);
  softmax.nan_to_zero = context.node().Int("nan_to_zero", 0) != 0;
  softmax.mask = mask;
  softmax.outer1 = problem.q.heads;
  softmax.inner = problem.q.rows;
  std::copy(problem.mask_strides, problem.mask_strides + 4, softmax.mask_strides);
  SoftmaxWithMask(device, softmax, scores, scores);
  ProductShape second;
  second.tf32 = tf32;
  second.rows = queries, second.columns = problem.v.columns, second.depth = keys, second.batch = problem.v.matrices();
  second.a_pitch = keys, second.b_pitch = problem.v.row_stride, second.d_pitch = problem.out.row_stride;
  second.a_stride = queries * keys, second.b_stride = problem.v.head_stride;
  second.d_stride = problem.out.head_stride * problem.sharing;
  Tensor& made = scatters ? plain_out : out;
  Multiply(device, second, {scores.address(), v->address(), nullptr, nullptr, made.address()});
  if (scatters)
    CopyWalk(device,
             {plain_out.shape().ToVector(),
              plain_out.shape().Strides(),
              {target.batch_stride, target.head_stride, target.row_stride, 1}},
             kBytes, plain_out.address(), out.address());
}

}  // namespace

std::optional<ChosenKernel> ChooseAttention(const OperatorRequest& request) {
  if (!request.IsInternal("FusedAttention")) return std::nullopt;
  const DType type = request.TypeOf(0), mask_type = request.Has(3) ? request.TypeOf(3) : DType::kUndefined;
  const std::optional<Shape> q = request.ShapeOf(0), k = request.ShapeOf(1), v = request.ShapeOf(2),
                             mask = request.ShapeOf(3);
  if (!q || !k || !v || (request.Has(3) && !mask)) return std::nullopt;
  const std::optional<Problem> problem = ProblemOf(request.node(), *q, *k, *v, mask ? &*mask : nullptr);
  if (!problem) return std::nullopt;
  const bool tf32 = request.settings.tf32;
  const bool flash = RunsAsFlash(AsFlash(request.node(), *problem, type, mask_type), request.settings.device, tf32);
  if (!flash && (type != DType::kFloat || (request.Has(3) && mask_type != type))) return std::nullopt;
  return OnDevice(request, flash ? "flash attention" : "products and softmax",
                  [=](const Device& device, OpContext& context) { Attend(device, context, tf32); });
}

}  // namespace ferry::cuda

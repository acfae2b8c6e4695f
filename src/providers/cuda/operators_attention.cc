// FusedAttention as one kernel where tensor cores may round, else as two products and a softmax between them, with
// scores in memory: [batch, heads, queries, keys].
#include "ops/support/fused.h"
#include "providers/cuda/attention_problem.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/operators.h"
#include "providers/cuda/product.h"
#include "providers/cuda/rotary.h"

namespace ferry::cuda {
namespace {

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

void Attend(const Device& device, OpContext& context, bool tf32) {
  const Tensor *q = &context.Input(0), *k = &context.Input(1), *v = &context.Input(2), *mask = context.OptionalInput(3);
  std::optional<Problem> found =
      ProblemOf(context.node(), q->shape(), k->shape(), v->shape(), mask ? &mask->shape() : nullptr);
  Require(found.has_value(), "the sizes of q ", q->shape(), ", k ", k->shape(), " and v ", v->shape(), " do not fit");
  Problem& problem = *found;
  Tensor& out = context.Output(0, q->dtype(), problem.shape);
  if (out.size() == 0) return;
  const FlashProblem flash = AsFlash(context.node(), problem, q->dtype(), mask ? mask->dtype() : DType::kUndefined);
  if (RunsAsFlash(flash, device.facts().compute_major, tf32))
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

int MajorOf(const Settings& settings) { return settings.device ? settings.device->facts().compute_major : 9; }

// Sizes and strides were found by the pass that made the node.
std::optional<ChosenKernel> ChooseStrided(const OperatorRequest& request) {
  const Node& node = request.node();
  FlashProblem flash;
  flash.dtype = request.TypeOf(0);
  const std::vector<int64_t> sizes = node.Ints("sizes"), q = node.Ints("q_view"), k = node.Ints("k_view"),
                             v = node.Ints("v_view"), out = node.Ints("out_view"), mask = node.Ints("mask_view");
  if (sizes.size() != 7 || q.size() != 5 || k.size() != 5 || v.size() != 5 || out.size() != 5 || mask.size() != 5)
    return std::nullopt;
  flash.batch = sizes[0], flash.heads = sizes[1], flash.sharing = sizes[2], flash.queries = sizes[3];
  flash.keys = sizes[4], flash.depth = sizes[5], flash.values = sizes[6];
  std::copy(q.begin() + 1, q.begin() + 4, flash.q);
  std::copy(k.begin() + 1, k.end(), flash.k);
  std::copy(v.begin() + 1, v.begin() + 4, flash.v);
  std::copy(out.begin() + 1, out.begin() + 4, flash.out);
  std::copy(mask.begin() + 1, mask.end(), flash.mask);
  flash.has_mask = request.Has(3);
  flash.mask_type = request.TypeOf(3);
  flash.mask_images = node.Int("mask_images", INT32_MAX);
  flash.scale = node.Float("scale", 1);
  flash.nan_to_zero = node.Int("nan_to_zero", 0) != 0;
  if (!RunsAsFlash(flash, MajorOf(request.settings), request.settings.tf32)) return std::nullopt;
  const Shape shape(node.Ints("shape"));
  const int64_t offsets[] = {q[0], k[0], v[0]};
  return OnDevice(request, "flash attention", [=](const Device& device, OpContext& context) {
    const std::byte* from[3];
    for (size_t i = 0; i < 3; ++i) {
      const Tensor& base = context.Input(i);
      from[i] = base.address() + static_cast<size_t>(offsets[i] * BitWidth(base.dtype()) / 8);
    }
    const Tensor* added = context.OptionalInput(3);
    Tensor& made = context.Output(0, context.Input(0).dtype(), shape);
    Flash(device, flash, {from[0], from[1], from[2], added ? added->address() : nullptr, made.address()});
  });
}

std::optional<ChosenKernel> ChooseRotary(const OperatorRequest& request) {
  const DType type = request.TypeOf(0);
  const std::optional<Shape> x = request.ShapeOf(0), cosines = request.ShapeOf(1), sines = request.ShapeOf(2);
  if ((type != DType::kFloat && type != DType::kFloat16 && type != DType::kBFloat16) || request.TypeOf(1) != type ||
      request.TypeOf(2) != type || !x || !cosines || !sines || !CanRotate(*x, *cosines, *sines))
    return std::nullopt;
  auto outer = [](const Shape& shape) { return Shape(shape.dims().first(shape.rank() - 1)); };
  Shape shape = BroadcastShapes(outer(*x), BroadcastShapes(outer(*cosines), outer(*sines)));
  if (shape.rank() > 4) return std::nullopt;
  shape.push_back(x->back());
  const bool interleaved = request.node().Int("interleaved", 0) != 0;
  return OnDevice(request, "rotary", [=](const Device& device, OpContext& context) {
    const Tensor& from = context.Input(0);
    Rotate(device, interleaved, from, context.Input(1), context.Input(2), context.Output(0, from.dtype(), shape));
  });
}

}  // namespace

std::optional<ChosenKernel> ChooseAttention(const OperatorRequest& request) {
  if (request.IsInternal("FusedRotary")) return ChooseRotary(request);
  if (request.IsInternal("StridedAttention")) return ChooseStrided(request);
  if (!request.IsInternal("FusedAttention")) return std::nullopt;
  const DType type = request.TypeOf(0), mask_type = request.Has(3) ? request.TypeOf(3) : DType::kUndefined;
  const std::optional<Shape> q = request.ShapeOf(0), k = request.ShapeOf(1), v = request.ShapeOf(2),
                             mask = request.ShapeOf(3);
  if (!q || !k || !v || (request.Has(3) && !mask)) return std::nullopt;
  const std::optional<Problem> problem = ProblemOf(request.node(), *q, *k, *v, mask ? &*mask : nullptr);
  if (!problem) return std::nullopt;
  const bool tf32 = request.settings.tf32;
  const bool flash = RunsAsFlash(AsFlash(request.node(), *problem, type, mask_type), MajorOf(request.settings), tf32);
  if (!flash && (type != DType::kFloat || (request.Has(3) && mask_type != type))) return std::nullopt;
  return OnDevice(request, flash ? "flash attention" : "products and softmax",
                  [=](const Device& device, OpContext& context) { Attend(device, context, tf32); });
}

}  // namespace ferry::cuda

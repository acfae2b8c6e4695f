// FusedAttention: softmax(q · k · scale + mask) · v for float, with `fill` in the place of scores that flags leave out.
// Made by passes/fuse_attention out of two products and what lies between them, with the transpositions of heads before
// and after taken in. Scores exist only for a block of queries.
#include <algorithm>
#include <optional>
#include <vector>

#include "base/scratch.h"
#include "kernels/elementwise.h"
#include "kernels/packed_gemm.h"
#include "kernels/row_kernels.h"
#include "ops/operator.h"
#include "ops/support/broadcast.h"
#include "ops/support/fused.h"
#include "ops/support/infer.h"

namespace ferry {
namespace {

// An operand as a stack of matrices: [outer axes…, rows, columns] with any strides.
struct Layout {
  std::vector<int64_t> outer, outer_strides;
  int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 1;
  int64_t sharing = 1;  // matrices of the result, along the last outer axis, that use one of these
};
template <class T>
struct StackOf : Layout {
  const T* data = nullptr;
};
using Stack = StackOf<float>;

// The shape of an operand as a stack of [rows, columns], whatever order the file has it in.
template <class Dims>
Dims Ordered(const Dims& shape, AttentionForm form) {
  Dims ordered = shape;
  auto rank = static_cast<size_t>(ordered.end() - ordered.begin());
  if (form == AttentionForm::kHeadsInside && rank == 4) std::swap(ordered[1], ordered[2]);
  if (form == AttentionForm::kTransposed && rank >= 2) std::swap(ordered[rank - 2], ordered[rank - 1]);
  return ordered;
}

template <class T = float>
StackOf<T> MakeStack(const Tensor& tensor, AttentionForm form, const char* what) {
  size_t rank = tensor.rank();
  Require(rank >= 2 && (form != AttentionForm::kHeadsInside || rank == 4), what, " of attention has shape ",
          tensor.shape());
  std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end()), strides(rank, 1);
  for (size_t i = rank - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  shape = Ordered(shape, form);
  strides = Ordered(strides, form);
  return {{.outer = {shape.begin(), shape.end() - 2},
           .outer_strides = {strides.begin(), strides.end() - 2},
           .rows = shape[rank - 2],
           .columns = shape[rank - 1],
           .row_stride = strides[rank - 2],
           .column_stride = strides[rank - 1]},
          tensor.Data<T>()};
}

Shape OuterShape(const Layout& stack) {
  Shape shape;
  for (int64_t dim : stack.outer) shape.push_back(dim);
  return shape;
}

// Heads that several of the queries' heads use.
void Share(Layout& stack, int64_t sharing) {
  if (sharing == 1) return;
  Require(sharing > 1 && stack.outer.size() == 2 && stack.outer[1] <= INT64_MAX / sharing, "heads of attention cannot ",
          "be shared by ", sharing);
  stack.outer[1] *= sharing;
  stack.sharing = sharing;
}

constexpr int64_t kLine = 16;  // floats of a cache line

// Where matrix `index` of the result's stack finds its operand.
int64_t OffsetOf(const Layout& stack, const Shape& outer, int64_t index) {
  int64_t offset = 0;
  size_t missing = outer.rank() - stack.outer.size();
  for (size_t i = outer.rank(); i-- > 0;) {
    int64_t at = index % outer[i];
    index /= outer[i];
    if (i + 1 == outer.rank()) at /= stack.sharing;
    if (i >= missing && stack.outer[i - missing] != 1) offset += at * stack.outer_strides[i - missing];
  }
  return offset;
}

struct Attention {
  Stack q, k, v;
  std::optional<Stack> mask;
  std::optional<StackOf<bool>> flags;
  SoftmaxRow how;  // without its rows
  Shape outer;
  Stack out;
  float* out_data = nullptr;

  int64_t queries() const { return q.rows; }
  int64_t keys() const { return k.rows; }
};

enum class AttentionScratch { kScores, kPackedKeys, kPackedValues, kSpreadMask, kSpreadFlags, kFactors, kCount };

float* Scratch(AttentionScratch use, int64_t count) { return ThreadScratch<float>(use, count); }

// A row of a mask for every key. Rows may be one for all queries, columns one for all keys.
template <class T>
const T* MaskRow(const std::optional<StackOf<T>>& mask, int64_t offset, int64_t row, int64_t keys,
                 AttentionScratch use) {
  if (!mask) return nullptr;
  const T* from = mask->data + offset + (mask->rows == 1 ? 0 : row * mask->row_stride);
  return mask->columns == 1 && keys > 1 ? std::fill_n(ThreadScratch<T>(use, keys), keys, *from) - keys : from;
}

// Where the masks of one matrix of the stack begin.
struct MaskOffsets {
  int64_t mask, flags;
};
MaskOffsets MasksOf(const Attention& problem, int64_t index) {
  return {problem.mask ? OffsetOf(*problem.mask, problem.outer, index) : 0,
          problem.flags ? OffsetOf(*problem.flags, problem.outer, index) : 0};
}

// Leaves the division by the sums to be made: `factors` has one for every row.
void SoftmaxRows(const Attention& problem, MaskOffsets offsets, int64_t first, int64_t count, float* scores,
                 int64_t stride, float* factors) {
  const RowKernels& kernels = BestRowKernels();
  SoftmaxRow row = problem.how;
  row.count = problem.keys();
  for (int64_t r = 0; r < count; ++r) {
    row.x = row.y = scores + r * stride;
    row.mask = MaskRow(problem.mask, offsets.mask, first + r, row.count, AttentionScratch::kSpreadMask);
    row.flags = MaskRow(problem.flags, offsets.flags, first + r, row.count, AttentionScratch::kSpreadFlags);
    factors[r] = kernels.softmax(row);
  }
}

void ScaleRow(float factor, int64_t count, float* row) {
  BestElementwiseKernels().binary(BinaryKind::kMultiply, row, true, &factor, false, row, count);
}

// Few queries: packing would cost more than it saves.
void FewQueries(const Attention& problem, int64_t index, int64_t first, int64_t last) {
  const RowKernels& kernels = BestRowKernels();
  int64_t keys = problem.keys(), depth = problem.q.columns;
  const float* q = problem.q.data + OffsetOf(problem.q, problem.outer, index);
  const float* k = problem.k.data + OffsetOf(problem.k, problem.outer, index);
  const float* v = problem.v.data + OffsetOf(problem.v, problem.outer, index);
  float* out = problem.out_data + OffsetOf(problem.out, problem.outer, index);
  const MaskOffsets masks = MasksOf(problem, index);
  float* scores = Scratch(AttentionScratch::kScores, keys);
  for (int64_t row = first; row < last; ++row) {
    const float* query = q + row * problem.q.row_stride;
    if (problem.k.column_stride == 1)
      for (int64_t t = 0; t < keys; ++t) scores[t] = kernels.dot(query, k + t * problem.k.row_stride, depth);
    else
      kernels.combine(query, depth, k, problem.k.column_stride, scores, keys);
    float factor;
    SoftmaxRows(problem, masks, row, 1, scores, keys, &factor);
    float* to = out + row * problem.out.row_stride;
    kernels.combine(scores, keys, v, problem.v.row_stride, to, problem.v.columns);
    ScaleRow(factor, problem.v.columns, to);
  }
}

// Scores of this many elements stay in the second-level cache.
constexpr int64_t kScores = 48 * 1024;
// Keys and values are read again for every block of queries; more tiles of them do so less often.
constexpr int64_t kFewestTiles = 4;

void ManyQueries(const Attention& problem, int64_t index, int64_t first, int64_t last) {
  const GemmKernels& gemm = BestGemmKernels();
  int64_t keys = problem.keys(), depth = problem.q.columns, width = problem.v.columns;
  const float* q = problem.q.data + OffsetOf(problem.q, problem.outer, index);
  float* out = problem.out_data + OffsetOf(problem.out, problem.outer, index);
  const MaskOffsets masks = MasksOf(problem, index);
  float* packed_k = Scratch(AttentionScratch::kPackedKeys, PackedSize(depth, keys));
  float* packed_v = Scratch(AttentionScratch::kPackedValues, PackedSize(keys, width));
  PackMatrix(problem.k.data + OffsetOf(problem.k, problem.outer, index), depth, keys, problem.k.column_stride,
             problem.k.row_stride, packed_k);
  PackMatrix(problem.v.data + OffsetOf(problem.v, problem.outer, index), keys, width, problem.v.row_stride,
             problem.v.column_stride, packed_v);
  const int64_t most = std::clamp(kScores / keys / gemm.best_rows, kFewestTiles, int64_t{16}) * gemm.best_rows;
  const int64_t blocks = (last - first + most - 1) / most, block = (last - first + blocks - 1) / blocks;
  // An odd number of cache lines: rows of a tile lie in different sets of the cache.
  const int64_t stride = ((keys + kLine - 1) / kLine | 1) * kLine;
  float* scores = Scratch(AttentionScratch::kScores, block * stride);
  float* factors = Scratch(AttentionScratch::kFactors, block);
  for (int64_t row = first; row < last; row += block) {
    int64_t count = std::min(block, last - row);
    gemm.plain(q + row * problem.q.row_stride, problem.q.row_stride, count, depth, packed_k, keys, scores, stride, {});
    SoftmaxRows(problem, masks, row, count, scores, stride, factors);
    gemm.plain(scores, stride, count, keys, packed_v, width, out + row * problem.out.row_stride, problem.out.row_stride,
               {});
    for (int64_t i = 0; i < count; ++i) ScaleRow(factors[i], width, out + (row + i) * problem.out.row_stride);
  }
}

void RunAttention(const OpContext& context, const Attention& problem) {
  int64_t stacks = problem.outer.ElementCount(), queries = problem.queries(), keys = problem.keys();
  if (stacks == 0 || queries == 0 || problem.v.columns == 0) return;
  const bool few = queries < 4;
  // Queries of one stack are cut only when there are many, and threads that would have less to do: each cut packs the
  // keys again.
  constexpr int64_t kQueriesPerCut = 512;
  const int64_t threads = context.services().pool ? context.services().pool->threads() : 1;
  int64_t cuts = 1;
  while (cuts * kQueriesPerCut < queries && stacks * cuts % threads != 0 && stacks * cuts < 8 * threads) ++cuts;
  const int64_t length = (queries + cuts - 1) / cuts;
  int64_t work = std::max<int64_t>(1, length * keys * (problem.q.columns + problem.v.columns));
  int64_t grain = std::max<int64_t>(1, (int64_t{1} << 19) / work);
  context.ParallelFor(stacks * cuts, grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t first = piece % cuts * length, last = std::min(queries, first + length);
      (few ? FewQueries : ManyQueries)(problem, piece / cuts, first, last);
    }
  });
}

// A sum with a larger mask repeats a single row of scores.
void Stretch(Layout& stack, int64_t rows) {
  if (stack.rows != 1 || rows <= 1) return;
  stack.rows = rows;
  stack.row_stride = 0;
}

// Repeats queries and keys as the mask does.
template <class T>
StackOf<T> TakeMask(const Tensor& mask, Attention& problem) {
  const Tensor matrix = mask.rank() >= 2 ? mask : mask.Reshaped({1, mask.size()});
  StackOf<T> stack = MakeStack<T>(matrix, AttentionForm::kPlain, "the mask");
  problem.outer = BroadcastShapes(problem.outer, OuterShape(stack));
  Stretch(problem.q, stack.rows);
  Stretch(problem.k, stack.columns);
  return stack;
}

void RequireFit(const Layout& mask, const Attention& problem) {
  auto fits = [](int64_t have, int64_t need) { return have == need || have == 1; };
  Require(fits(mask.rows, problem.q.rows) && fits(mask.columns, problem.k.rows), "a mask of ", mask.rows, " × ",
          mask.columns, " does not fit scores of ", problem.q.rows, " × ", problem.k.rows);
}

void ComputeFusedAttention(OpContext& context) {
  const Node& node = context.node();
  Attention problem;
  problem.q = MakeStack(context.Input(0), AttentionFormOf(node, "q_form"), "the query");
  problem.k = MakeStack(context.Input(1), AttentionFormOf(node, "k_form"), "the key");
  problem.v = MakeStack(context.Input(2), AttentionFormOf(node, "v_form"), "the value");
  Share(problem.k, node.Int("heads_sharing", 1));
  Share(problem.v, node.Int("heads_sharing", 1));
  problem.how.scale = node.Float("scale", 1.0f);
  problem.how.nan_to_zero = node.Int("nan_to_zero", 0) != 0;
  problem.how.empty_to_zero = node.Int("empty_to_zero", 0) != 0;
  problem.how.fill = node.Float("fill", 0.0f);
  problem.how.flags_leave_out = node.Int("flags_leave_out", 0) != 0;
  problem.how.fills_before_mask = node.Int("fills_before_mask", 0) != 0;
  problem.how.normalize = false;
  Require(problem.q.column_stride == 1 && problem.v.column_stride == 1, "only keys may lie transposed");
  problem.outer = BroadcastShapes(BroadcastShapes(OuterShape(problem.q), OuterShape(problem.k)), OuterShape(problem.v));
  if (const Tensor* mask = context.OptionalInput(3)) problem.mask = TakeMask<float>(*mask, problem);
  if (const Tensor* flags = context.OptionalInput(4)) problem.flags = TakeMask<bool>(*flags, problem);
  if (problem.mask) RequireFit(*problem.mask, problem);
  if (problem.flags) RequireFit(*problem.flags, problem);
  Require(problem.q.columns == problem.k.columns && problem.k.rows == problem.v.rows, "the sizes of q ",
          context.Input(0).shape(), ", k ", context.Input(1).shape(), " and v ", context.Input(2).shape(),
          " do not fit");
  AttentionForm form = AttentionFormOf(node, "out_form");
  Shape shape = problem.outer;
  shape.push_back(problem.q.rows);
  shape.push_back(problem.v.columns);
  Tensor& out = context.Output(0, DType::kFloat, Ordered(shape, form));
  problem.out = MakeStack(out, form, "the result");
  Require(problem.out.column_stride == 1, "only keys may lie transposed");
  problem.out_data = out.MutableData<float>();
  if (problem.k.rows == 0) {
    std::fill_n(problem.out_data, out.size(), 0.0f);
    return;
  }
  RunAttention(context, problem);
}

void InferFusedAttention(InferContext& context) {
  const SymbolicShape *q = context.InputShape(0), *k = context.InputShape(1), *v = context.InputShape(2);
  if (!q || !k || !v || q->size() < 2 || k->size() < 2 || v->size() < 2) return context.SetOutput(0, DType::kFloat);
  const Node& node = context.node();
  SymbolicShape query = Ordered(*q, AttentionFormOf(node, "q_form")),
                key = Ordered(*k, AttentionFormOf(node, "k_form")),
                value = Ordered(*v, AttentionFormOf(node, "v_form"));
  auto outer = [](const SymbolicShape& shape) { return SymbolicShape(shape.begin(), shape.end() - 2); };
  if (int64_t sharing = node.Int("heads_sharing", 1); sharing != 1 && key.size() == 4 && value.size() == 4) {
    for (SymbolicShape* shape : {&key, &value}) {
      Dim& heads = (*shape)[1];
      heads = heads.known() && *heads.value <= INT64_MAX / sharing ? Dim(*heads.value * sharing) : Dim();
    }
  }
  SymbolicShape out = BroadcastSymbolic(BroadcastSymbolic(outer(query), outer(key)), outer(value));
  SymbolicShape rows = {query[query.size() - 2]};
  for (size_t input : {3, 4}) {
    if (!context.Has(input)) continue;
    const SymbolicShape* mask = context.InputShape(input);
    if (!mask) return context.SetOutput(0, DType::kFloat);
    if (mask->size() > 2) out = BroadcastSymbolic(out, outer(*mask));
    if (mask->size() > 1) rows = BroadcastSymbolic(rows, {(*mask)[mask->size() - 2]});
  }
  out.push_back(rows[0]);
  out.push_back(value.back());
  context.SetOutput(0, DType::kFloat, Ordered(out, AttentionFormOf(node, "out_form")));
}

}  // namespace

FERRY_OPERATOR_IN(internal, FusedAttention, {.compute = ComputeFusedAttention, .infer = InferFusedAttention});

}  // namespace ferry

#include "ops/support/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/scratch.h"
#include "kernels/elementwise.h"
#include "kernels/packed_gemm.h"
#include "kernels/row_kernels.h"
#include "ops/support/rotary.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

constexpr int64_t kQueries = 128;  // that share one packing of keys and values
constexpr int64_t kFewQueries = 4;
constexpr int64_t kLine = 16;  // floats of a cache line

enum class CacheScratch { kScores, kKeys, kValues, kRows, kCount };

float* Scratch(CacheScratch use, int64_t count) { return ThreadScratch<float>(use, count); }

void Scale(float factor, float* row, int64_t count) {
  BestElementwiseKernels().binary(BinaryKind::kMultiply, row, true, &factor, false, row, count);
}

// Scores of keys [keys.begin, keys.end) become what values are weighed with, up to the factor that is returned. `row`
// begins at key keys.begin and has room for one more.
float FinishRow(const CachedAttention& a, const VisibleKeys& keys, int64_t head, float* row, float* kept) {
  const int64_t count = keys.end - keys.begin;
  const RowKernels& kernels = BestRowKernels();
  Scale(a.softcap > 0 ? a.scale / a.softcap : a.scale, row, count);
  if (a.softcap > 0) {
    kernels.activate({ActivationKind::kTanh}, row, row, count);
    Scale(a.softcap, row, count);
  }
  bool sees_any = !keys.bias && !keys.seen;
  for (int64_t j = 0; j < count && (keys.bias || keys.seen); ++j) {
    if (keys.bias) row[j] += keys.bias[keys.begin + j];
    if (keys.seen && !keys.seen[keys.begin + j]) row[j] = -HUGE_VALF;
    sees_any |= row[j] != -HUGE_VALF;
  }
  const auto keep = [&](float factor) {
    std::fill_n(kept, keys.begin, 0.0f);
    for (int64_t j = 0; j < count; ++j) kept[keys.begin + j] = row[j] * factor;
  };
  if (a.kept == CachedAttention::Scores::kBeforeSoftmax) keep(1.0f);
  float factor = 0;
  if (sees_any) {
    SoftmaxRow softmax{.x = row, .y = row, .count = count, .normalize = false};
    if (a.sinks) row[softmax.count++] = a.sinks[head];
    factor = kernels.softmax(softmax);
  } else {
    std::fill_n(row, count, 0.0f);
  }
  if (a.kept == CachedAttention::Scores::kAfterSoftmax) keep(factor);
  return factor;
}

struct Task {
  const CachedAttention& a;
  int64_t image, kv_head, first, rows;

  int64_t group() const { return a.heads / a.kv_heads; }
  // The keys that any query may look at.
  std::pair<int64_t, int64_t> Seen() const {
    int64_t low = INT64_MAX, high = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const VisibleKeys keys = a.visible(image, kv_head * group(), first + i);
      low = std::min(low, keys.begin);
      high = std::max(high, keys.end);
    }
    return {std::min(low, high), high};
  }
  // Rows from `low` on of keys or values, as floats.
  const float* Rows(const void* all, int64_t low, int64_t count, CacheScratch use) const {
    const int64_t at = ((image * a.kv_heads + kv_head) * a.room + low) * a.size;
    if (a.type == DType::kFloat) return static_cast<const float*>(all) + at;
    float* wide = Scratch(use, count * a.size);
    WidenRun(a.type, static_cast<const uint16_t*>(all) + at, wide, count * a.size);
    return wide;
  }
  const float* Query(int64_t head, int64_t i) const {
    return a.q + (image * a.queries + first + i) * a.q_row + head * a.size;
  }
  float* Result(int64_t head, int64_t i) const {
    return a.y + ((image * a.queries + first + i) * a.heads + head) * a.size;
  }
  float* Kept(int64_t head, int64_t i) const {
    return a.scores ? a.scores + ((image * a.heads + head) * a.queries + first + i) * a.score_row : nullptr;
  }
};

// Keys and values are read where they lie, once for all heads that share them.
void FewQueries(const Task& task) {
  const CachedAttention& a = task.a;
  const RowKernels& kernels = BestRowKernels();
  const auto [low, high] = task.Seen();
  const float* all_keys = task.Rows(a.keys, low, high - low, CacheScratch::kKeys);
  const float* all_values = task.Rows(a.values, low, high - low, CacheScratch::kValues);
  for (int64_t i = 0; i < task.rows; ++i) {
    const int64_t first_head = task.kv_head * task.group();
    int64_t most = 0;
    for (int64_t h = 0; h < task.group(); ++h) {
      const VisibleKeys keys = a.visible(task.image, first_head + h, task.first + i);
      most = std::max(most, keys.end - keys.begin);
    }
    float* scores = Scratch(CacheScratch::kScores, task.group() * (most + 1));
    const VisibleKeys all = a.visible(task.image, first_head, task.first + i);
    for (int64_t j = all.begin; j < all.end; ++j)
      for (int64_t h = 0; h < task.group(); ++h)
        scores[h * (most + 1) + j - all.begin] =
            kernels.dot(task.Query(first_head + h, i), all_keys + (j - low) * a.size, a.size);
    for (int64_t h = 0; h < task.group(); ++h) {
      const int64_t head = first_head + h;
      const VisibleKeys keys = a.visible(task.image, head, task.first + i);
      float* row = scores + h * (most + 1);
      const float factor = keys.end > keys.begin ? FinishRow(a, keys, head, row, task.Kept(head, i)) : 0;
      kernels.combine(row, keys.end - keys.begin, all_values + (keys.begin - low) * a.size, a.size,
                      task.Result(head, i), a.size);
      Scale(factor, task.Result(head, i), a.size);
    }
  }
}

void ManyQueries(const Task& task) {
  const CachedAttention& a = task.a;
  const GemmKernels& gemm = BestGemmKernels();
  const int64_t first_head = task.kv_head * task.group();
  const auto [low, high] = task.Seen();
  const int64_t count = high - low, block = 3 * gemm.best_rows;
  const int64_t stride = ((count + 1 + kLine - 1) / kLine | 1) * kLine;
  float* keys = Scratch(CacheScratch::kKeys, PackedSize(a.size, count));
  float* values = Scratch(CacheScratch::kValues, PackedSize(count, a.size));
  PackMatrix(task.Rows(a.keys, low, count, CacheScratch::kRows), a.size, count, 1, a.size, keys);
  PackMatrix(task.Rows(a.values, low, count, CacheScratch::kRows), count, a.size, a.size, 1, values);
  float* scores = Scratch(CacheScratch::kScores, block * stride + block);
  float* factors = scores + block * stride;
  for (int64_t head = first_head; head < first_head + task.group(); ++head)
    for (int64_t row = 0; row < task.rows; row += block) {
      const int64_t rows = std::min(block, task.rows - row);
      if (count > 0) gemm.plain(task.Query(head, row), a.q_row, rows, a.size, keys, count, scores, stride, {});
      for (int64_t i = 0; i < rows; ++i) {
        const VisibleKeys seen = a.visible(task.image, head, task.first + row + i);
        float* line = scores + i * stride;
        factors[i] =
            seen.end > seen.begin ? FinishRow(a, seen, head, line + seen.begin - low, task.Kept(head, row + i)) : 0;
        std::fill(line, line + std::min(count, seen.begin - low), 0.0f);
        std::fill(line + std::max<int64_t>(0, seen.end - low), line + count, 0.0f);
      }
      if (count > 0)
        gemm.plain(scores, stride, rows, count, values, a.size, task.Result(head, row), a.heads * a.size, {});
      for (int64_t i = 0; i < rows; ++i)
        if (factors[i] == 0)  // a query that sees nothing, whatever the values are
          std::fill_n(task.Result(head, row + i), a.size, 0.0f);
        else
          Scale(factors[i], task.Result(head, row + i), a.size);
    }
}

}  // namespace

void RunCachedAttention(const OpContext& context, const CachedAttention& a) {
  const int64_t blocks = (a.queries + kQueries - 1) / kQueries;
  const int64_t work = std::max<int64_t>(1, std::min(a.queries, kQueries) * a.room * a.size * 2 * a.heads / a.kv_heads);
  context.ParallelFor(a.batch * a.kv_heads * blocks, 1 + 65536 / work, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t head = at / blocks, first = at % blocks * kQueries;
      const Task task{a, head / a.kv_heads, head % a.kv_heads, first, std::min(kQueries, a.queries - first)};
      (task.rows < kFewQueries ? FewQueries : ManyQueries)(task);
    }
  });
}

RotaryCaches::RotaryCaches(const Tensor& cosines, const Tensor& sines, int64_t most, bool interleaved)
    : cosines_(WidenToFloat(cosines)), sines_(WidenToFloat(sines)), interleaved_(interleaved) {
  Require(cosines.rank() == 2 && sines.shape() == cosines.shape() && cosines_.dtype() == DType::kFloat &&
              sines_.dtype() == DType::kFloat,
          "cos_cache ", cosines.shape(), " and sin_cache ", sines.shape(), " must be two tables of one shape");
  positions_ = cosines.dim(0);
  width_ = cosines.dim(1);
  Require(width_ <= most / 2, "the caches have ", width_, " angles, heads of ", most, " have room for ", most / 2);
}

void RotaryCaches::Turn(float* row, int64_t heads, int64_t size, int64_t position) const {
  Require(position >= 0 && position < positions_, "position ", position, " is outside the caches, which have ",
          positions_);
  for (int64_t head = 0; head < heads; ++head)
    RotateRow({.x = row + head * size,
               .cosines = cosines_.Data<float>() + position * width_,
               .sines = sines_.Data<float>() + position * width_,
               .count = 2 * width_,
               .width = width_,
               .interleaved = interleaved_,
               .y = row + head * size});
}

HeadRowsInput::HeadRowsInput(const OpContext& context, int64_t heads, int64_t kv_heads, bool writable) {
  const Tensor& query = context.Input(0);
  Require(query.rank() == 3, "query must have 3 axes, its shape is ", query.shape());
  Require(heads % kv_heads == 0, "num_heads ", heads, " must be a multiple of kv_num_heads ", kv_heads);
  batch = query.dim(0);
  queries = query.dim(1);
  auto wide = [&](const Tensor& tensor) {
    Tensor result = WidenToFloat(tensor);
    Require(result.dtype() == DType::kFloat, "double is not supported");
    return writable && tensor.dtype() == DType::kFloat ? result.Clone() : result;
  };
  bool is_packed = !context.Has(1) && !context.Has(2);
  Require(is_packed || (context.Has(1) && context.Has(2)), "key and value must be given together");
  int64_t cut = is_packed ? heads + 2 * kv_heads : heads;
  Require(query.dim(2) > 0 && query.dim(2) % cut == 0, "rows of ", query.dim(2), " cannot be cut into ", cut, " heads");
  size = query.dim(2) / cut;
  if (!is_packed) {
    const Tensor &key = context.Input(1), &value = context.Input(2);
    length = key.rank() == 3 ? key.dim(1) : 0;
    Require(key.shape() == Shape{batch, length, kv_heads * size} && value.shape() == key.shape(), "key ", key.shape(),
            " and value ", value.shape(), " do not fit query ", query.shape());
    q = wide(query);
    k = wide(key);
    v = wide(value);
    return;
  }
  length = queries;
  Tensor all = WidenToFloat(query);
  q = Tensor(DType::kFloat, Shape{batch, queries, heads * size});
  k = Tensor(DType::kFloat, Shape{batch, queries, kv_heads * size});
  v = Tensor(DType::kFloat, k.shape());
  for (int64_t row = 0; row < batch * queries; ++row) {
    const float* from = all.Data<float>() + row * cut * size;
    std::copy_n(from, heads * size, q.MutableData<float>() + row * heads * size);
    std::copy_n(from + heads * size, kv_heads * size, k.MutableData<float>() + row * kv_heads * size);
    std::copy_n(from + (heads + kv_heads) * size, kv_heads * size, v.MutableData<float>() + row * kv_heads * size);
  }
}

}  // namespace ferry

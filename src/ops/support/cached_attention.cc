#include "ops/support/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/gemm.h"
#include "ops/support/rotary.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

constexpr int64_t kRows = 64;  // queries that share one pass over keys and values

// Scores become probabilities; keys outside the range get 0.
void FinishRow(const CachedAttention& a, const VisibleKeys& keys, int64_t head, int64_t total, float* row,
               float* kept) {
  std::fill(row, row + keys.begin, 0.0f);
  std::fill(row + keys.end, row + total, 0.0f);
  float largest = a.sinks ? a.sinks[head] : -HUGE_VALF;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    if (a.softcap > 0) row[j] = a.softcap * std::tanh(row[j] / a.softcap);
    if (keys.bias) row[j] += keys.bias[j];
    if (keys.seen && !keys.seen[j]) row[j] = -HUGE_VALF;
    largest = std::max(largest, row[j]);
  }
  if (a.kept == CachedAttention::Scores::kBeforeSoftmax) std::copy_n(row, total, kept);
  double sum = a.sinks ? std::exp(static_cast<double>(a.sinks[head] - largest)) : 0;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    row[j] = largest == -HUGE_VALF ? 0.0f : std::exp(row[j] - largest);
    sum += static_cast<double>(row[j]);
  }
  float factor = sum > 0 ? static_cast<float>(1 / sum) : 0;
  for (int64_t j = keys.begin; j < keys.end; ++j) row[j] *= factor;
  if (a.kept == CachedAttention::Scores::kAfterSoftmax) std::copy_n(row, total, kept);
}

void RunRows(const CachedAttention& a, int64_t image, int64_t head, int64_t first, int64_t rows,
             std::vector<float>& scores) {
  std::vector<VisibleKeys> keys;
  int64_t total = 0;
  for (int64_t i = 0; i < rows; ++i) {
    keys.push_back(a.visible(image, head, first + i));
    total = std::max(total, keys.back().end);
  }
  float* y = a.y + (image * a.queries + first) * a.heads * a.size + head * a.size;
  if (total == 0) {
    for (int64_t i = 0; i < rows; ++i) std::fill_n(y + i * a.heads * a.size, a.size, 0.0f);
    return;
  }
  int64_t cache = (image * a.kv_heads + head / (a.heads / a.kv_heads)) * a.room * a.size;
  scores.resize(static_cast<size_t>(rows * total));
  Gemm<float>({.m = rows,
               .n = total,
               .k = a.size,
               .a = a.q + (image * a.queries + first) * a.q_row + head * a.size,
               .a_row = a.q_row,
               .b = a.keys + cache,
               .b_row = 1,
               .b_col = a.size,
               .c = scores.data(),
               .c_row = total},
              nullptr);
  for (int64_t i = 0; i < rows; ++i) {
    float* row = scores.data() + i * total;
    for (int64_t j = 0; j < total; ++j) row[j] *= a.scale;
    float* kept = a.scores ? a.scores + ((image * a.heads + head) * a.queries + first + i) * a.score_row : nullptr;
    FinishRow(a, keys[static_cast<size_t>(i)], head, total, row, kept);
  }
  Gemm<float>({.m = rows,
               .n = a.size,
               .k = total,
               .a = scores.data(),
               .a_row = total,
               .b = a.values + cache,
               .b_row = a.size,
               .c = y,
               .c_row = a.heads * a.size},
              nullptr);
}

}  // namespace

void RunCachedAttention(const OpContext& context, const CachedAttention& a) {
  int64_t blocks = (a.queries + kRows - 1) / kRows;
  int64_t work = std::max<int64_t>(1, std::min(a.queries, kRows) * a.room * a.size * 2);
  context.ParallelFor(a.batch * a.heads * blocks, 1 + 65536 / work, [&](int64_t begin, int64_t end) {
    std::vector<float> scores;
    for (int64_t task = begin; task < end; ++task) {
      int64_t head = task / blocks, first = task % blocks * kRows;
      RunRows(a, head / a.heads, head % a.heads, first, std::min(kRows, a.queries - first), scores);
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
  std::vector<float> turned(static_cast<size_t>(2 * width_));
  for (int64_t head = 0; head < heads; ++head) {
    RotateRow({.x = row + head * size,
               .cosines = cosines_.Data<float>() + position * width_,
               .sines = sines_.Data<float>() + position * width_,
               .count = 2 * width_,
               .width = width_,
               .interleaved = interleaved_,
               .y = turned.data()});
    std::copy(turned.begin(), turned.end(), row + head * size);
  }
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

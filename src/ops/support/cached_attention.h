// Queries against the keys and values of a cache, several heads of queries to one of keys: what GroupQueryAttention and
// SparseAttention share. Caches of halves are read as they lie; everything else is float here.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "ops/context.h"

namespace ferry {

// The keys that a query looks at.
struct VisibleKeys {
  int64_t begin = 0, end = 0;
  const float* bias = nullptr;    // added to the scores, from key 0 on
  const uint8_t* seen = nullptr;  // from key 0 on: 0 hides a key
};

struct CachedAttention {
  enum class Scores { kNone, kBeforeSoftmax, kAfterSoftmax };

  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, size = 0;
  int64_t room = 0;  // rows of each head of the cache
  float scale = 1, softcap = 0;
  const float* q = nullptr;  // [batch, queries, …], rows `q_row` apart, heads side by side
  int64_t q_row = 0;
  const void *keys = nullptr, *values = nullptr;  // [batch, kv_heads, room, size]
  DType type = DType::kFloat;                     // of keys and values; or float16, or bfloat16
  const float* sinks = nullptr;                   // one for each head: takes part in the softmax, has no value
  FunctionRef<VisibleKeys(int64_t image, int64_t head, int64_t query)> visible;
  float* y = nullptr;  // [batch, queries, heads · size]

  Scores kept = Scores::kNone;
  float* scores = nullptr;  // [batch, heads, queries, score_row]
  int64_t score_row = 0;
};

void RunCachedAttention(const OpContext& context, const CachedAttention& attention);

// Caches of cosines and sines, [positions, width / 2] each, and the turning of heads by them.
class RotaryCaches {
 public:
  // `most` is the width of a head.
  RotaryCaches(const Tensor& cosines, const Tensor& sines, int64_t most, bool interleaved);
  int64_t positions() const { return positions_; }
  // The first width() numbers of each of `heads` heads of `size` that lie side by side.
  void Turn(float* row, int64_t heads, int64_t size, int64_t position) const;

 private:
  Tensor cosines_, sines_;
  int64_t positions_, width_;
  bool interleaved_;
};

// Queries, keys and values as float rows: apart, or packed into one input.
struct HeadRowsInput {
  Tensor q, k, v;  // [batch, length, heads · size]
  int64_t batch = 0, queries = 0, length = 0, size = 0;

  // Inputs 0 to 2; `packed` when only the first is there. May be written to where `writable`.
  HeadRowsInput(const OpContext& context, int64_t heads, int64_t kv_heads, bool writable);
};

}  // namespace ferry

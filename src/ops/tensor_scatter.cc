#include <algorithm>

#include "ops/operator.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"
#include "ops/support/scatter.h"

namespace ferry {
namespace {

// Where the update of each sample starts, in range of the cache.
std::vector<int64_t> WriteStarts(const OpContext& context, int64_t batch, int64_t longest, int64_t length,
                                 bool circular) {
  std::vector<int64_t> starts(static_cast<size_t>(batch));
  const Tensor* given = context.OptionalInput(2);
  if (given) {
    Require(given->shape() == Shape{batch}, "write_indices have shape ", given->shape(), ", expected [", batch, "]");
    starts = ToInt64Vector(*given);
  }
  for (int64_t& start : starts) {
    if (circular) {
      if (longest > 0) start = (start % longest + longest) % longest;
      continue;
    }
    Require(start >= 0 && start <= longest - length, "write index ", start, " with ", length,
            " new elements is outside the cache of length ", longest);
  }
  return starts;
}

void ComputeTensorScatter(OpContext& context) {
  const Tensor& cache = context.Input(0);
  const Tensor& update = context.Input(1);
  std::string mode = context.node().String("mode", "linear");
  Require(mode == "linear" || mode == "circular", "mode '", Printable(mode), "' is not one of linear, circular");
  size_t axis = NormalizeAxis(context.node().Int("axis", -2), cache.rank());
  Require(axis > 0, "axis cannot be 0, the batch axis");
  bool fits = update.rank() == cache.rank();
  for (size_t a = 0; fits && a < cache.rank(); ++a)
    fits = a == axis ? update.dim(a) <= cache.dim(a) : update.dim(a) == cache.dim(a);
  Require(fits, "an update of shape ", update.shape(), " does not fit a cache of shape ", cache.shape(), " on axis ",
          axis);

  int64_t batch = cache.dim(0), longest = cache.dim(axis), length = update.dim(axis);
  std::vector<int64_t> starts = WriteStarts(context, batch, longest, length, mode == "circular");
  int64_t middle = cache.shape().CountBetween(1, axis), inner = cache.shape().CountBetween(axis + 1, cache.rank());
  ScatterOver(context, cache, update, [&](const Tensor& changes, Tensor& out) {
    for (int64_t b = 0; b < batch; ++b) {
      int64_t start = starts[static_cast<size_t>(b)], first = std::min(length, longest - start);
      int64_t from = b * middle * length * inner, to = b * middle * longest * inner;
      CopyStrided(context, changes, from, out, to + start * inner,
                  {{middle, length * inner, longest * inner}, {first * inner, 1, 1}});
      CopyStrided(context, changes, from + first * inner, out, to,
                  {{middle, length * inner, longest * inner}, {(length - first) * inner, 1, 1}});
    }
  });
}

}  // namespace

FERRY_OPERATOR(TensorScatter, {.compute = ComputeTensorScatter, .infer = InferSameAsInput, .in_place = kInput0});

}  // namespace ferry

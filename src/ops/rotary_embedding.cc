#include "ops/operator.h"
#include "ops/support/attention.h"
#include "ops/support/dispatch.h"
#include "ops/support/infer.h"
#include "ops/support/rotary.h"
#include "ops/support/rounding.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

struct RotaryPlan {
  HeadLayout x;
  int64_t rotated;  // leading elements of each head that turn; the rest is copied
  bool interleaved;
  std::vector<int64_t> positions;  // rows of the caches, one per (image, position)

  explicit RotaryPlan(const OpContext& context)
      : x(context.Input(0).shape(), context.node().Int("num_heads", 0), "X"),
        rotated(context.node().Int("rotary_embedding_dim", 0)),
        interleaved(context.node().Int("interleaved", 0) != 0) {
    if (rotated == 0) rotated = x.size;
    Require(rotated > 0 && rotated <= x.size && rotated % 2 == 0, "rotary_embedding_dim ", rotated,
            " must be even and at most the head size ", x.size);
    const Shape& cosines = context.Input(1).shape();
    const Shape& sines = context.Input(2).shape();
    Require(cosines == sines, "cos_cache ", cosines, " and sin_cache ", sines, " must have one shape");
    const Tensor* ids = context.OptionalInput(3);
    Require(cosines.rank() == (ids ? 2u : 3u) && cosines.back() == rotated / 2, "cos_cache of shape ", cosines,
            " must have ", ids ? 2 : 3, " axes, the last of size ", rotated / 2);
    if (!ids) {
      Require(cosines[0] == x.batch && cosines[1] == x.length, "cos_cache of shape ", cosines, " does not fit X ",
              context.Input(0).shape());
      for (int64_t i = 0; i < x.batch * x.length; ++i) positions.push_back(i);
      return;
    }
    Require(ids->shape() == Shape{x.batch, x.length}, "position_ids must have shape [", x.batch, ", ", x.length,
            "], have ", ids->shape());
    positions = ToInt64Vector(*ids);
    for (int64_t& position : positions) {
      Require(position >= -cosines[0] && position < cosines[0], "position ", position, " is outside the caches of ",
              cosines[0], " rows");
      if (position < 0) position += cosines[0];
    }
  }
};

// (a, b) → (a·cos − b·sin, a·sin + b·cos), each product rounded as the type would.
void Rotate(DType type, const RotaryPlan& plan, const float* from, const float* cosines, const float* sines,
            float* to) {
  int64_t half = plan.rotated / 2;
  std::copy(from + plan.rotated, from + plan.x.size, to + plan.rotated);
  if (type == DType::kFloat) return RotateRow({from, cosines, sines, plan.rotated, half, plan.interleaved, to});
  for (int64_t i = 0; i < half; ++i) {
    int64_t first = plan.interleaved ? 2 * i : i, second = plan.interleaved ? 2 * i + 1 : i + half;
    float products[4] = {cosines[i] * from[first], sines[i] * from[second], sines[i] * from[first],
                         cosines[i] * from[second]};
    RoundTo(type, products, 4);
    to[first] = products[0] - products[1];
    to[second] = products[2] + products[3];
  }
}

void ComputeRotaryEmbedding(OpContext& context) {
  RotaryPlan plan(context);
  const Tensor& x = context.Input(0);
  for (size_t i = 1; i < 3; ++i) Require(context.Input(i).dtype() == x.dtype(), "X and the caches must have one type");
  Tensor& y = context.Output(0, x.dtype(), x.shape());
  Tensor wide = WidenToFloat(x), cosines = WidenToFloat(context.Input(1)), sines = WidenToFloat(context.Input(2));
  Tensor result = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, x.shape()) : y;
  const float* from = wide.Data<float>();
  float* to = result.MutableData<float>();
  int64_t work = std::max<int64_t>(plan.x.heads * plan.x.size, 1);
  context.ParallelFor(plan.x.batch * plan.x.length, 1 + 16384 / work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t row = plan.positions[static_cast<size_t>(i)] * (plan.rotated / 2);
      for (int64_t head = 0; head < plan.x.heads; ++head) {
        int64_t at = plan.x.Offset(i / plan.x.length, head) + i % plan.x.length * plan.x.row();
        Rotate(x.dtype(), plan, from + at, cosines.Data<float>() + row, sines.Data<float>() + row, to + at);
      }
    }
  });
  NarrowInto(result, y);
}

}  // namespace

FERRY_OPERATOR(RotaryEmbedding, {.compute = ComputeRotaryEmbedding, .infer = InferSameAsInput});

}  // namespace ferry

#include <cmath>

#include "kernels/gemm.h"
#include "ops/operator.h"
#include "ops/support/attention.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

struct LinearPlan {
  HeadLayout q, k, v;
  bool gates, corrects;    // what update_rule turns on
  int64_t group;           // query heads per key head
  int64_t decay_size = 0;  // 1 or d_k per head
  int64_t beta_heads = 0;  // 1 or all key heads
  float scale;

  explicit LinearPlan(const OpContext& context)
      : q(Packed(context, 0, "query"), context.node().Int("q_num_heads", 0), "query"),
        k(Packed(context, 1, "key"), context.node().Int("kv_num_heads", 0), "key"),
        v(Packed(context, 2, "value"), context.node().Int("kv_num_heads", 0), "value") {
    std::string rule = context.node().String("update_rule", "gated_delta");
    Require(rule == "linear" || rule == "gated" || rule == "delta" || rule == "gated_delta",
            "update_rule must be linear, gated, delta or gated_delta, is '", Printable(rule), "'");
    gates = rule == "gated" || rule == "gated_delta";
    corrects = rule == "delta" || rule == "gated_delta";
    Require(q.heads % k.heads == 0, "q_num_heads ", q.heads, " must be a multiple of kv_num_heads ", k.heads);
    Require(
        q.batch == k.batch && k.batch == v.batch && q.length == k.length && k.length == v.length && q.size == k.size,
        "query ", context.Input(0).shape(), ", key ", context.Input(1).shape(), " and value ", context.Input(2).shape(),
        " do not go together");
    group = q.heads / k.heads;
    scale = context.node().Float("scale", 0.0f);
    if (scale == 0) scale = 1 / std::sqrt(static_cast<float>(std::max<int64_t>(q.size, 1)));
    if (const Tensor* past = context.OptionalInput(3))
      Require(past->shape() == StateShape(), "past_state must have shape ", StateShape(), ", has ", past->shape());
    Require(context.Has(4) == gates, "update_rule '", rule, gates ? "' needs" : "' does not take", " decay");
    Require(context.Has(5) == corrects, "update_rule '", rule, corrects ? "' needs" : "' does not take", " beta");
    if (gates) {
      int64_t last = LastSize(context, 4, "decay");
      Require(last == k.heads || last == k.heads * k.size, "decay has ", last, " values per step, ", k.heads, " or ",
              k.heads * k.size, " are needed");
      decay_size = last / k.heads;
    }
    if (corrects) {
      beta_heads = LastSize(context, 5, "beta");
      Require(beta_heads == k.heads || beta_heads == 1, "beta has ", beta_heads, " values per step, 1 or ", k.heads,
              " are needed");
    }
  }

  Shape StateShape() const { return {k.batch, k.heads, k.size, v.size}; }

 private:
  static const Shape& Packed(const OpContext& context, size_t i, const char* what) {
    const Shape& shape = context.Input(i).shape();
    Require(shape.rank() == 3, what, " must have 3 axes, its shape is ", shape);
    return shape;
  }
  int64_t LastSize(const OpContext& context, size_t i, const char* what) const {
    const Shape& shape = context.Input(i).shape();
    Require(shape.rank() == 3 && shape[0] == q.batch && shape[1] == q.length, what, " must have shape [", q.batch, ", ",
            q.length, ", …], has ", shape);
    return shape[2];
  }
};

struct LinearTensors {
  Tensor q, k, v, decay, beta;  // float; the last two may be undefined
};

// One key head from first to last step: `state` [d_k, d_v] is carried along and left as it is at the end.
void RunHead(const LinearPlan& plan, const LinearTensors& tensors, int64_t image, int64_t head, float* state,
             float* out) {
  int64_t d_k = plan.k.size, d_v = plan.v.size;
  std::vector<float> update(static_cast<size_t>(d_v));
  for (int64_t step = 0; step < plan.q.length; ++step) {
    int64_t row = image * plan.q.length + step;
    const float* key = tensors.k.Data<float>() + row * plan.k.row() + head * d_k;
    const float* value = tensors.v.Data<float>() + row * plan.v.row() + head * d_v;
    if (plan.gates) {
      const float* decay = tensors.decay.Data<float>() + (row * plan.k.heads + head) * plan.decay_size;
      for (int64_t i = 0; i < d_k; ++i) {
        float factor = std::exp(decay[plan.decay_size == 1 ? 0 : i]);
        for (int64_t j = 0; j < d_v; ++j) state[i * d_v + j] *= factor;
      }
    }
    std::copy_n(value, d_v, update.data());
    if (plan.corrects) {
      float beta = tensors.beta.Data<float>()[row * plan.beta_heads + (plan.beta_heads == 1 ? 0 : head)];
      for (int64_t i = 0; i < d_k; ++i) AddScaled(d_v, -key[i], state + i * d_v, update.data());
      for (float& each : update) each *= beta;
    }
    for (int64_t i = 0; i < d_k; ++i) AddScaled<float>(d_v, key[i], update.data(), state + i * d_v);
    for (int64_t g = 0; g < plan.group; ++g) {
      int64_t q_head = head * plan.group + g;
      const float* query = tensors.q.Data<float>() + row * plan.q.row() + q_head * d_k;
      float* to = out + (row * plan.q.heads + q_head) * d_v;
      std::fill_n(to, d_v, 0.0f);
      for (int64_t i = 0; i < d_k; ++i) AddScaled<float>(d_v, query[i], state + i * d_v, to);
      for (int64_t j = 0; j < d_v; ++j) to[j] *= plan.scale;
    }
  }
}

void ComputeLinearAttention(OpContext& context) {
  LinearPlan plan(context);
  DType type = context.Input(0).dtype(), state_type = context.Has(3) ? context.Input(3).dtype() : type;
  Tensor& y = context.Output(0, type, Shape{plan.q.batch, plan.q.length, CheckedProduct(plan.q.heads, plan.v.size)});
  Tensor& present = context.Output(1, state_type, plan.StateShape());
  LinearTensors tensors{WidenToFloat(context.Input(0)), WidenToFloat(context.Input(1)), WidenToFloat(context.Input(2)),
                        plan.gates ? WidenToFloat(context.Input(4)) : Tensor(),
                        plan.corrects ? WidenToFloat(context.Input(5)) : Tensor()};
  Tensor result = IsSmallFloat(type) ? Tensor(DType::kFloat, y.shape()) : y;
  Tensor state =
      context.Has(3) ? WidenToFloat(context.Input(3)).Clone() : Tensor::Zeros(DType::kFloat, plan.StateShape());
  float* states = state.MutableData<float>();
  float* out = result.MutableData<float>();
  context.ParallelFor(plan.k.batch * plan.k.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      RunHead(plan, tensors, i / plan.k.heads, i % plan.k.heads, states + i * plan.k.size * plan.v.size, out);
  });
  NarrowInto(result, y);
  NarrowInto(state, present);
}

void InferLinearAttention(InferContext& context) {
  int64_t q_heads = context.node().Int("q_num_heads", 0), kv_heads = context.node().Int("kv_num_heads", 0);
  Require(q_heads >= 1 && kv_heads >= 1, "q_num_heads and kv_num_heads must be positive, are ", q_heads, " and ",
          kv_heads);
  Dim batch, steps, d_k, d_v;
  for (size_t i = 0; i < 3; ++i) {
    const SymbolicShape* shape = context.InputShape(i);
    if (!shape) continue;
    Require(shape->size() == 3, "query, key and value must have 3 axes, one has shape ", *shape);
    if (batch.unknown()) batch = (*shape)[0];
    if (steps.unknown()) steps = (*shape)[1];
    Dim size = FloorDivide((*shape)[2], Dim(i == 0 ? q_heads : kv_heads));
    if (i == 2)
      d_v = size;
    else if (d_k.unknown())
      d_k = size;
  }
  const SymbolicShape* past = context.InputShape(3);
  if (past && past->size() == 4) {
    if (batch.unknown()) batch = (*past)[0];
    if (d_k.unknown()) d_k = (*past)[2];
    if (d_v.unknown()) d_v = (*past)[3];
  }
  context.SetOutput(0, context.InputDType(0), {batch, steps, d_v * Dim(q_heads)});
  context.SetOutput(1, context.InputDType(context.Has(3) ? 3 : 0), {batch, Dim(kv_heads), d_k, d_v});
}

}  // namespace

FERRY_OPERATOR(LinearAttention, {.compute = ComputeLinearAttention, .infer = InferLinearAttention});

}  // namespace ferry

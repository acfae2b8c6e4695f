#include <cmath>

#include "ops/operator.h"
#include "ops/support/rounding.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

struct CausalConvPlan {
  int64_t batch, channels, length, kernel;
  bool activates;

  explicit CausalConvPlan(const OpContext& context) {
    const Shape& x = context.Input(0).shape();
    const Shape& w = context.Input(1).shape();
    Require(x.rank() == 3 && w.rank() == 3, "input ", x, " and weight ", w, " must have 3 axes");
    batch = x[0];
    channels = x[1];
    length = x[2];
    kernel = w[2];
    Require(kernel >= 1 && w == Shape{channels, 1, kernel}, "weight must have shape [", channels, ", 1, k], has ", w);
    if (const Tensor* bias = context.OptionalInput(2))
      Require(bias->shape() == Shape{channels}, "bias must have shape [", channels, "], has ", bias->shape());
    if (const Tensor* past = context.OptionalInput(3))
      Require(past->shape() == StateShape(), "past_state must have shape ", StateShape(), ", has ", past->shape());
    std::string activation = context.node().String("activation", "none");
    Require(activation == "none" || activation == "silu" || activation == "swish",
            "activation must be none, silu or swish, is '", Printable(activation), "'");
    activates = activation != "none";
  }

  Shape StateShape() const { return {batch, channels, kernel - 1}; }
};

// One channel: `line` is the past (or zeros) followed by the input.
void RunChannel(const CausalConvPlan& plan, DType type, const std::vector<float>& line, const float* weight, float bias,
                float* out) {
  for (int64_t i = 0; i < plan.length; ++i) {
    float sum = 0;
    for (int64_t k = 0; k < plan.kernel; ++k) sum += weight[k] * line[static_cast<size_t>(i + k)];
    out[i] = sum + bias;
  }
  if (!plan.activates) return;
  RoundTo(type, out, plan.length);
  for (int64_t i = 0; i < plan.length; ++i) out[i] = out[i] / (1 + std::exp(-out[i]));
}

void ComputeCausalConvWithState(OpContext& context) {
  CausalConvPlan plan(context);
  const Tensor& x = context.Input(0);
  DType type = x.dtype();
  for (size_t i = 1; i < 4; ++i)
    if (const Tensor* other = context.OptionalInput(i))
      Require(other->dtype() == type, "all inputs must have one type, input is ", type, ", another ", other->dtype());
  Tensor& y = context.Output(0, type, x.shape());
  Tensor& state = context.Output(1, type, plan.StateShape());
  Tensor wide_x = WidenToFloat(x), weight = WidenToFloat(context.Input(1));
  Tensor bias = context.Has(2) ? WidenToFloat(context.Input(2)) : Tensor();
  Tensor past = context.Has(3) ? WidenToFloat(context.Input(3)) : Tensor();
  bool is_small = IsSmallFloat(type);
  Tensor result = is_small ? Tensor(DType::kFloat, y.shape()) : y;
  Tensor next = is_small ? Tensor(DType::kFloat, state.shape()) : state;
  const float* from = wide_x.Data<float>();
  float* to = result.MutableData<float>();
  float* kept = next.MutableData<float>();
  int64_t memory = plan.kernel - 1;
  int64_t work = std::max<int64_t>(plan.length * plan.kernel, 1);
  context.ParallelFor(plan.batch * plan.channels, 1 + 16384 / work, [&](int64_t begin, int64_t end) {
    std::vector<float> line(static_cast<size_t>(memory + plan.length));
    for (int64_t i = begin; i < end; ++i) {
      int64_t channel = i % plan.channels;
      if (past.defined())
        std::copy_n(past.Data<float>() + i * memory, memory, line.data());
      else
        std::fill_n(line.data(), memory, 0.0f);
      std::copy_n(from + i * plan.length, plan.length, line.data() + memory);
      RunChannel(plan, type, line, weight.Data<float>() + channel * plan.kernel,
                 bias.defined() ? bias.Data<float>()[channel] : 0.0f, to + i * plan.length);
      std::copy_n(line.data() + plan.length, memory, kept + i * memory);
    }
  });
  NarrowInto(result, y);
  NarrowInto(next, state);
}

void InferCausalConvWithState(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* w = context.InputShape(1);
  for (const SymbolicShape* shape : {x, w})
    if (shape) Require(shape->size() == 3, "input and weight must have 3 axes, one has shape ", *shape);
  context.SetOutput(0, context.InputType(0));
  SymbolicShape state(3);
  if (x) std::copy_n(x->begin(), 2, state.begin());
  if (w) state[2] = (*w)[2] - Dim(1);
  const SymbolicShape* past = context.InputShape(3);
  for (size_t i = 0; past && past->size() == 3 && i < 3; ++i)
    if (state[i].unknown()) state[i] = (*past)[i];
  context.SetOutput(1, context.InputDType(0), std::move(state));
}

}  // namespace

FERRY_OPERATOR(CausalConvWithState, {.compute = ComputeCausalConvWithState, .infer = InferCausalConvWithState});

}  // namespace ferry
